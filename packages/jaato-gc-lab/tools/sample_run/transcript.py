"""Builds the messages of the sample run from the calls of an agent."""

from typing import Any

from sample_run.workspace import Workspace


class Transcript:
    """The messages of a request to Anthropic's API.

    Args:
        workspace: The project that the agent works on.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.messages: list[dict[str, Any]] = []
        self._calls = 0

    def user(self, text: str) -> None:
        """Adds a message of the user, which opens a turn."""
        self.messages.append({"role": "user", "content": text})

    def answer(self, text: str) -> None:
        """Adds the last answer of a turn."""
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})

    def call(self, why: str, *calls: tuple[str, dict[str, str], str]) -> None:
        """Adds calls that run in parallel, and their results."""
        said: list[dict[str, Any]] = [{"type": "text", "text": why}] if why else []
        results: list[dict[str, Any]] = []
        for tool, arguments, result in calls:
            self._calls += 1
            number = f"toolu_{self._calls:04d}"
            said.append({"type": "tool_use", "id": number, "name": tool, "input": arguments})
            results.append({"type": "tool_result", "tool_use_id": number, "content": result})
            if result.startswith("error:"):
                results[-1]["is_error"] = True
        self.messages.append({"role": "assistant", "content": said})
        self.messages.append({"role": "user", "content": results})

    def read(self, why: str, *paths: str) -> None:
        """Reads files."""
        self.call(why, *(("read_file", {"path": p}, self.workspace.read(p)) for p in paths))

    def edit(self, why: str, path: str, *texts: str) -> None:
        """Edits a file. Texts are pairs of an old and a new text, one call each."""
        self.call(
            why,
            *(
                (
                    "edit_file",
                    {"path": path, "old": old, "new": new},
                    self.workspace.edit(path, old, new),
                )
                for old, new in zip(texts[::2], texts[1::2], strict=True)
            ),
        )

    def write(self, why: str, path: str, content: str) -> None:
        """Writes a whole file."""
        arguments = {"path": path, "content": content}
        self.call(why, ("write_file", arguments, self.workspace.write(path, content)))

    def search(self, why: str, pattern: str, path: str = ".") -> None:
        """Searches files."""
        found = self.workspace.search(pattern, path)
        self.call(why, ("search", {"pattern": pattern, "path": path}, found))

    def tests(self, why: str, *names: str) -> None:
        """Runs the tests of some modules briefly, or all of them verbosely."""
        paths = [f"tests/test_{name}.py" for name in names]
        shown = self.workspace.pytest(*paths, verbose=not paths)
        self.run(why, " ".join(["python -m pytest", *(["-q", *paths] if paths else ["-v"])]), shown)

    def run(self, why: str, command: str, output: str) -> None:
        """Runs a shell command with a given output."""
        self.call(why, ("run_command", {"command": command}, output))

    def python(self, why: str, code: str) -> None:
        """Runs Python code that imports the project."""
        self.run(why, f"python - <<'END'\n{code}\nEND", self.workspace.python(code))

    def diff(self, why: str) -> None:
        """Shows all changes since the last commit."""
        self.run(why, "git diff", self.workspace.diff())

    def commit(self, why: str, message: str) -> None:
        """Commits all changes."""
        self.run(why, f"git commit -qam '{message}'", self.workspace.commit(message))
