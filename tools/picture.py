"""`make picture`: runs `tidelog demo` on a terminal and keeps its last screen as an SVG.

The picture in the README is what the command printed, not a drawing: the program runs on a
pseudo-terminal, the screen is followed as a terminal would follow it, and rich draws that text.
"""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

_COLUMNS: Final = 104
_TARGET: Final = Path(__file__).parents[1] / "docs" / "assets" / "demo.svg"
_CONTROL: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n")
_FONT_FACE: Final = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""Fonts that the browser would fetch from elsewhere."""


def screen_after(output: str) -> list[str]:
    """The lines on the screen once the output was printed, colours included."""
    lines, row, position = [""], 0, 0
    for found in _CONTROL.finditer(output):
        lines[row] += output[position : found.start()]
        position = found.end()
        argument, action = found.group(1), found.group(2)
        if found.group() == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif action == "A":
            row = max(0, row - int(argument or 1))
        elif action == "K":
            lines[row] = ""
        elif action == "m":
            lines[row] += found.group()
    lines[row] += output[position:]
    return lines


def run(command: list[str]) -> tuple[str, int]:
    """What a command printed on a terminal, and its exit code."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ |= {"COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, _COLUMNS, 0, 0))
    printed = bytearray()
    try:
        while part := os.read(terminal, 1 << 16):
            printed += part
    except OSError:
        # Linux reports the end of a terminal whose last process is gone as an error.
        pass
    return printed.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _with_short_paths(screen: str, directory: str) -> str:
    """Paths as they are without a temporary directory, as wide as before."""
    named = re.compile(re.escape(directory) + r"(\S*)")
    return named.sub(lambda path: f"tidelog-demo{path[1]}".ljust(len(path[0])), screen)


def main() -> int:
    """Runs the demo and writes the picture."""
    tidelog = str(Path(sys.executable).with_name("tidelog"))
    with tempfile.TemporaryDirectory() as directory:
        command = [tidelog, "demo", "--data-dir", directory, *sys.argv[1:]]
        printed, code = run(command)
        shown = _with_short_paths("\n".join(screen_after(printed)), directory)
    if code != 0:
        sys.stderr.write(shown)
        return code
    console = Console(record=True, width=_COLUMNS, file=io.StringIO())
    console.print(Text("$ tidelog demo", style="bold"))
    console.print(Text.from_ansi(shown.strip("\n")))
    svg = console.export_svg(
        title="tidelog demo", code_format=_FONT_FACE.sub("", CONSOLE_SVG_FORMAT), unique_id="demo"
    )
    _TARGET.parent.mkdir(parents=True, exist_ok=True)
    _TARGET.write_text(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
