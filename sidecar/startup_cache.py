"""The start-up cache: the code of the fast path in one file, beside the .pyc files it stands for.

Importing thirty small modules costs 150 us each, most of it in looking for them. The daemon, when it starts,
writes their code objects into one file in `sidecar/__pycache__`; the `sidecar` script loads that file and makes
the modules itself, in 1 ms. Like a .pyc file it is valid only for this interpreter and for sources of exactly
the recorded modification times and sizes; else, or where the folder may not be written to, the ordinary
import does the same, slower.

The extension modules of the standard library that the fast path needs are loaded from where they were found then: to
look for them lists two folders, 0.3 ms. Where one is not there any more, the import looks for it.

The file holds marshal.dumps((code of LOADER, stamps, entries)). A stamp is (source path, mtime in ns, size in bytes),
an entry (module name, source path, is a package, code). What is loaded after the spawn is in a file of its own, since
to read it and look at its sources can wait until the command runs: marshal.dumps((stamps, entries, for_files)), where
`for_files` is marshal.dumps of the entries of FOR_FILES.
"""

import ast
import marshal
import os
import sys
import tempfile
from importlib.util import find_spec
from types import CodeType

Stamp = tuple[str, int, int]
Entry = tuple[str, str, bool, CodeType]

# In an order in which each finds what it imports at once.
BEFORE_SPAWN = (
    "sidecar",
    "sidecar.core",
    "sidecar.core.errors",
    "sidecar.launch",
    "sidecar.core.snapshot",
    "sidecar.supervisor",
    "sidecar.supervisor._schema",
    "sidecar.supervisor.options",
    "sidecar.core.trace_context",
    "sidecar.core.frame_line",
    "sidecar.places",
    "sidecar.supervisor.libc",
    "sidecar.supervisor.signals",
    "sidecar.supervisor.spawn",
    "sidecar.supervisor.streams",
    "sidecar.supervisor.ledger",
    "sidecar.supervisor.reports",
    "sidecar.supervisor.carry_on",
    "sidecar.supervisor.run",
)
# Loaded when the command runs, beside it: that is for nothing, as long as there is a second core. Not between its
# fork and its exec: until then each page that either process writes to must first be copied, which makes both three
# times as slow.
AFTER_SPAWN = (
    "sidecar.core.agent_variables",
    "sidecar.core.output",
    "sidecar.core.heartbeat",
    "sidecar.core.lifecycle",
    "sidecar.supervisor.notes",
    "sidecar.supervisor.child",
    "sidecar.supervisor.delivery",
    "sidecar.supervisor.leave",
    "sidecar.supervisor.asking",
    "sidecar.supervisor.reactions",
    "sidecar.supervisor.loop",
    "sidecar.supervisor.relay",
    "sidecar.supervisor.sink",
    "sidecar.supervisor.connection",
    "sidecar.supervisor.link",
)

# Of these, what only an agent needs that gave a file as an output.
FOR_FILES = ("sidecar.supervisor.files",)

# By when they are needed. Built into some interpreters.
EXTENSIONS_BEFORE_SPAWN = ("_ctypes",)
EXTENSIONS_AFTER_SPAWN = ("select",)

# Run by bin/sidecar with `packages`, `cache`, `stamps` and `first` in its globals. Without importlib: that is why.
LOADER = '''
import marshal
import posix
import sys
from _frozen_importlib import _load
from _frozen_importlib_external import ExtensionFileLoader, spec_from_file_location

def valid(stamps):
    for path, mtime_ns, size in stamps:
        if not path.startswith(packages):
            return False  # copied with its environment, of which the original may still be there
        status = posix.stat(path)
        if status.st_mtime_ns != mtime_ns or status.st_size != size:
            return False
    return True

def extend(found):
    for name, path in found:
        # Not from the folder of an interpreter that is not ours.
        if name not in sys.modules and path.rpartition("/")[0] in sys.path:
            try:
                _load(spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path)))
            except ImportError:
                pass

def load(entries):
    modules = sys.modules
    for name, path, package, code in entries:
        if name in modules:
            continue
        module = type(sys)(name)
        module.__file__ = path
        parent, _, last = name.rpartition(".")
        module.__package__ = name if package else parent
        if package:
            module.__path__ = [path.rpartition("/")[0]]
        modules[name] = module
        exec(code, module.__dict__)
        if parent:
            setattr(modules[parent], last, module)

def load_rest(with_files):
    extend(AFTER)
    try:
        with open(cache + ".later", "rb", 0) as file:
            stamps, entries, for_files = marshal.loads(file.read())
        if not valid(stamps):
            return
        if with_files:
            entries += marshal.loads(for_files)
    except (OSError, ValueError, EOFError, TypeError):
        return  # the ordinary import does it
    load(entries)

if valid(stamps):
    extend(BEFORE)
    load(first)
    sys.modules["sidecar"].load_rest = load_rest
'''


def cache_path() -> str:
    """Where bin/sidecar looks for it: one file an interpreter version."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(folder, "__pycache__", f"fastpath.{sys.implementation.cache_tag}.marshal")


def build() -> tuple[bytes, bytes]:
    """The content of the two files, from the sources as they are now. Raises OSError where they cannot be read."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    first = [_entry(root, name) for name in BEFORE_SPAWN]
    later = [_entry(root, name) for name in AFTER_SPAWN]
    for_files = [_entry(root, name) for name in FOR_FILES]
    stamps = [[stamp for _, stamp in part] for part in (first, later + for_files)]
    entries = [[entry for entry, _ in part] for part in (first, later, for_files)]
    second = (stamps[1], entries[1], marshal.dumps(entries[2]))
    return marshal.dumps((_loader(), stamps[0], entries[0])), marshal.dumps(second)


def refresh() -> bool:
    """Write the cache if it is missing or stale. False where it cannot be written; that only costs speed."""
    path = cache_path()
    if is_current(path):
        return True
    try:
        first, later = build()
        replace_file(f"{path}.later", later, 0o644)
        replace_file(path, first, 0o644)
    except OSError:
        return False
    return True


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Put `content` at `path` at once or not at all. Raises OSError, and leaves nothing behind then."""
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".sidecar.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def is_current(path: str) -> bool:
    """Whether the files at `path` would be used, and hold what `build` would put there."""
    try:
        with open(path, "rb") as file:
            loader, stamps, first = marshal.loads(file.read())  # noqa: S302 - as trusted as the .pyc files beside it
        with open(f"{path}.later", "rb") as file:
            later_stamps, later, for_files = marshal.loads(file.read())  # noqa: S302 - the same
        stamps += later_stamps
        names = [entry[0] for entry in (*first, *later, *marshal.loads(for_files))]  # noqa: S302 - the same
        found = [(path, status.st_mtime_ns, status.st_size) for path, status in ((s[0], os.stat(s[0])) for s in stamps)]
    except (OSError, ValueError, EOFError, TypeError, IndexError):
        return False
    return names == [*BEFORE_SPAWN, *AFTER_SPAWN, *FOR_FILES] and stamps == found and loader == _loader()


def _loader() -> CodeType:
    places = f"BEFORE = {_found(EXTENSIONS_BEFORE_SPAWN)!r}\nAFTER = {_found(EXTENSIONS_AFTER_SPAWN)!r}\n"
    return compile(places + LOADER, "<sidecar start-up cache>", "exec", optimize=2)


def _found(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(name, path) of those extension modules that are files."""
    specs = [find_spec(name) for name in names]
    return tuple((spec.name, spec.origin) for spec in specs if spec is not None and spec.has_location and spec.origin)


def _entry(root: str, name: str) -> tuple[Entry, Stamp]:
    path = os.path.join(root, *name.split("."))
    package = os.path.isdir(path)
    path = os.path.join(path, "__init__.py") if package else path + ".py"
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        source = file.read()
    tree = ast.fix_missing_locations(_Bare().visit(ast.parse(source, path)))
    code = _without_lines(compile(tree, path, "exec", dont_inherit=True, optimize=2))
    return (name, path, package, code), (path, status.st_mtime_ns, status.st_size)


class _Bare(ast.NodeTransformer):
    """What is for readers and type checkers goes: annotations, and what stands under TYPE_CHECKING. Nobody asks for it
    here, and with the docstrings (optimize=2) it is a fifth of the bytes."""

    def visit_If(self, node: ast.If) -> "ast.AST | list[ast.stmt]":
        self.generic_visit(node)
        only_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse or [ast.Pass()] if only_types else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Pass() if node.value is None else ast.Assign([node.target], node.value)


def _without_lines(code: CodeType) -> CodeType:
    """Line tables are a quarter of the bytes, and the supervisor shows no tracebacks."""
    constants = tuple(_without_lines(item) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=b"")
