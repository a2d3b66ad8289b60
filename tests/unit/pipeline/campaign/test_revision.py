"""The revision names the sources that a simulated run executes, and no others."""

from tidelog.pipeline.campaign.revision import source_revision


def _package(root):
    for place in ("sim/engine/world.py", "log/log.py", "cli/app.py"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text("value = 1\n")
    return root


def test_any_change_of_simulated_sources_changes_it(tmp_path):
    package = _package(tmp_path)
    before = source_revision(package)
    assert source_revision(package) == before
    (package / "log/log.py").write_text("value = 2\n")
    changed = source_revision(package)
    (package / "log/log.py").rename(package / "log/logs.py")
    assert len({before, changed, source_revision(package)}) == 3


def test_what_no_run_enters_does_not_matter(tmp_path):
    package = _package(tmp_path)
    before = source_revision(package)
    (package / "cli/app.py").write_text("value = 2\n")
    assert source_revision(package) == before
