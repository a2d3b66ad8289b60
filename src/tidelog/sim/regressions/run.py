"""One story as a run of the simulator: the same report as a seed's."""

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.env.trace import Level
from tidelog.sim.regressions.scene import Scene
from tidelog.sim.regressions.stories import Story
from tidelog.sim.report.outcome import Outcome


@dataclass(frozen=True, slots=True)
class StoryOptions:
    """What the first line of a replay says of a story."""

    story: Story

    def describe(self) -> str:
        """One line."""
        return f"story={self.story.number} title={self.story.title!r} origin={self.story.origin!r}"


class RegressionRun:
    """A story, not begun."""

    def __init__(self, story: Story, seed: int, *, trace_level: Level = Level.INFO) -> None:
        self.seed = seed
        self.swarm = StoryOptions(story)
        # Who hears every line of the trace, when the story is over.
        self.listeners: list[Callable[[str], None]] = []
        self._story = story
        self._scene = Scene(seed, trace_level=trace_level)

    def run(self) -> Outcome:
        """Plays the story to its end, good or bad."""
        scene = self._scene
        outcome = Outcome(self.seed)
        with outcome.judged():
            self._story.play(scene)
        for line in scene.lines:
            for listener in self.listeners:
                listener(line)
        outcome.events = scene.event_count
        outcome.virtual_ms = scene.virtual_ms
        outcome.acknowledged = scene.acknowledged
        outcome.trace_hash = scene.trace_hash
        return outcome
