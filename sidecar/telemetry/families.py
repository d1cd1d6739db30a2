"""Program names as a bounded label: the name if it is on the list, else `other`.

A command line, or even every program's name, as a label makes a series of each: 20,000 command lines were
240,000 series and 5.6 s a scrape.
"""

from collections.abc import Iterable

OTHER = "other"

DEFAULT_FAMILIES: tuple[str, ...] = (
    # shells and what they are mostly asked for
    *("bash", "sh", "zsh", "fish", "cat", "cp", "curl", "find", "grep", "rg", "rsync", "sed", "sleep", "ssh"),
    *("tail", "tar", "wget", "xargs"),
    # builds
    *("bazel", "cargo", "cmake", "gcc", "go", "gradle", "make", "mvn", "ninja", "rustc", "tsc"),
    # languages, their packages and tests
    *("bun", "bundle", "deno", "dotnet", "eslint", "java", "jest", "mypy", "node", "npm", "npx", "php"),
    *("pip", "pnpm", "poetry", "pytest", "python", "ruby", "ruff", "swift", "tox", "uv", "vite", "vitest"),
    *("webpack", "yarn"),
    # operations
    *("ansible-playbook", "apt-get", "aws", "docker", "gcloud", "gh", "git", "helm", "kubectl", "psql"),
    *("sqlite3", "terraform"),
)


class Families:
    """The list in use. Names are compared without their folder; `python3.12` is of the family `python`."""

    def __init__(self, names: Iterable[str] = DEFAULT_FAMILIES) -> None:
        self._names = frozenset(names) - {OTHER}

    def of(self, program: str) -> str:
        name = program.rpartition("/")[2]
        if name in self._names:
            return name
        unversioned = name.rstrip("0123456789.-")
        return unversioned if unversioned in self._names else OTHER

    @property
    def all(self) -> tuple[str, ...]:
        """Every value the label can have, sorted, `other` last."""
        return (*sorted(self._names), OTHER)
