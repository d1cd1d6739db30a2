"""Secrets among the words of a command: options by their names, and by what is known of well-known programs.

Words only; what is in a word (URLs, tokens, headers) is `redaction_shapes`'s business. The program is the last
word that names one we know, so that `sudo -u x mysql -p...` and `docker exec db mysql -p...` need no list of
all that may stand in front.
"""

import re

from sidecar.core import redaction_names as names
from sidecar.core.redaction_names import listed
from sidecar.core.redaction_programs import PLAIN, PROGRAMS, Program
from sidecar.core.redaction_shapes import userinfo

Found = tuple[int, int, int]
"""(which word, start, end)"""

SHELLS = listed("sh bash dash zsh ksh mksh ash fish sidecar-sh")
_TEXT_RUNNERS = frozenset({"ssh", "eval", "watch", "su"})
"""Their arguments are commands too, or may be."""

_ASSIGNMENT = re.compile(r"-{0,2}(?P<name>[A-Za-z_@][A-Za-z0-9_.:/@-]*+)=")
_CLUSTER = re.compile(r"-[A-Za-z0-9]{1,12}")
_BATCH = re.compile(r"-[A-Za-z]{0,8}b[A-Za-z]{0,8}")
_PORTS = re.compile(r"[0-9]{1,5}(?::[0-9]{1,5})?(?:/tcp|/udp)?")
_LOGON = re.compile(r"[^/\s@]++/(?P<password>[^@\s/]++)(?:[@ ].*+)?", re.DOTALL)
_LOGIN_OPTIONS = frozenset({"user", "proxy-user", "proxy", "auth", "preproxy"})

# What follows these is a name, not the program that is run.
_NAMING = listed("--name --hostname -h --host --network --link --image --package --service -l --label")


def find(words: list[str]) -> list[Found]:
    """What to take out of the words of one command."""
    found: list[Found] = []
    program, rules = "", PLAIN
    seen: set[str] = set()
    previous = before = ""
    logs_in = stored = False
    awaited = 0  # how many arguments from here a verb's secret is
    for index, word in enumerate(words):
        base = word.rpartition("/")[2] if len(word) < 256 else ""
        known = base in PROGRAMS and previous not in _NAMING and word[:1] != "-"
        # In `docker run mysql` an image's name is no program yet; `exec db mysql`, `run mysql mysql` have one. In
        # `mysql -u root install -p...` the last name is a database's.
        if known and ((rules is PLAIN or program == "sshpass") if not rules.after else seen & {"exec", base}):
            program, rules = base, PROGRAMS[base]
        here = _in_word(index, word, program, rules, seen)
        if index > 0 and not here:
            here = _after(index, previous, word, program, rules, seen)
            if before == "--arg" and names.hides(previous, word):  # jq --arg NAME VALUE
                here = [(index, 0, len(word))]
        if awaited and word[:1] != "-" and (len(previous) != 2 or previous[0] != "-"):
            awaited -= 1
            if awaited == 0 and not here and word and "=" not in word and not names.is_reference(word):
                here = [(index, 0, len(word))]
        elif previous == "-p" and logs_in and not here and _is_password(word):
            here = [(index, 0, len(word))]  # `-u USER -p PASSWORD` of whatever it is
        elif stored and word and word[0] != "-" and not here and not names.is_reference(word):
            here = [(index, 0, len(word))]
        awaited = rules.verbs.get(base, awaited)
        if previous in _LOGINS and before not in _AS_ANOTHER and word[:1] != "-":
            logs_in = not program or (rules is not PLAIN and not rules.after and "p" not in rules.glued)
        stored = stored or word.startswith(_STORED)
        found += here
        if len(word) < 32:
            seen.add(word)
        before, previous = previous, word
    return found


_LOGINS = frozenset({"-u", "-U", "--user", "--username", "--login"})
_AS_ANOTHER = frozenset({"sudo", "doas", "su", "runuser", "env"})
_STORED = ("http-basic.", "github-oauth.", "gitlab-token.", "bitbucket-oauth.", "bearer.", "pypi-token.")
"""Keys of `composer config` and `poetry config`: what follows is a login."""
_PROPERTY = re.compile(r"[A-Za-z]++=")


def _is_password(word: str) -> bool:
    """Rather than a port, a process id, a property or the next option."""
    digits = word.isdigit() and len(word) <= 7
    plain = _PORTS.fullmatch(word) or _PROPERTY.match(word)
    return bool(word) and word[0] != "-" and not digits and not plain and not names.is_reference(word)


def scripts(words: list[str]) -> set[int]:
    """Which words are a shell's commands: the string of `sh -c`, what `ssh` runs over there."""
    found: set[int] = set()
    shell = awaiting = runner = False
    for index, word in enumerate(words):
        if awaiting and not word.startswith("-"):
            found.add(index)
            shell = awaiting = False
        elif shell and word[:1] == "-" and word[:2] != "--" and word.endswith("c") and len(word) < 12:
            awaiting = True
        elif runner and any(blank in word for blank in " \n"):
            found.add(index)
        base = word.rpartition("/")[2] if len(word) < 256 else ""
        shell = shell or base in SHELLS
        runner = runner or base in _TEXT_RUNNERS
    return found


def _in_word(index: int, word: str, program: str, rules: Program, seen: set[str]) -> list[Found]:
    """The secret that one word holds by itself: NAME=value, --name=value, -pvalue."""
    start = 0
    for _ in range(4):  # --build-arg=NPM_TOKEN=x
        assignment = _ASSIGNMENT.match(word, start)
        if assignment is None:
            break
        start = assignment.end()
        name = assignment["name"]
        option = assignment[0][0] == "-" and name != name.upper()
        if option and name in _LOGIN_OPTIONS and rules.user:
            return _login(index, word, start)
        if names.hides(f"--{name}" if option else name, word[start:], option=option):
            return [(index, start, len(word))]
        if ((name == "from-literal" or "set" in seen) and seen & {"secret", "secrets"}) or "config:set" in seen:
            value = word.find("=", start) + 1 if name == "from-literal" else start
            return [(index, value, len(word))] if value < len(word) else []
    if word[:1] == "-" and len(word) > 2 and word[1] in rules.glued and not _PORTS.fullmatch(word, 2):
        return [] if names.is_reference(word[2:]) else [(index, 2, len(word))]
    if word[:1] == "-" and len(word) > 3 and word[1] in rules.user and ":" in word:
        return [(index, *span) for span in userinfo(word, 2, len(word))]
    if program == "openssl" and word.startswith("pass:"):
        return [(index, 5, len(word))]
    if rules.logon and (logon := _LOGON.fullmatch(word)) is not None:
        return [(index, *logon.span("password"))]
    if program == "gh" and "secret" in seen and word.startswith("-b") and len(word) > 2:
        return [(index, 2, len(word))]
    if program == "vault" and "kv" in seen and seen & {"put", "patch"} and "=" in word:
        value = word.index("=") + 1
        return [(index, value, len(word))] if value < len(word) and word[value] != "@" else []
    if word.startswith("/p:") and seen & {"xfreerdp", "wfreerdp"} and len(word) > 3:
        return [(index, 3, len(word))]
    if program == "rar" and word.startswith("-hp") and len(word) > 3:
        return [(index, 3, len(word))]
    return []


def _after(index: int, option: str, word: str, program: str, rules: Program, seen: set[str]) -> list[Found]:
    """The secret that `word` is because of the word before it."""
    if not word or names.is_reference(word):
        return []
    whole = [(index, 0, len(word))]
    if program in ("htpasswd", "wpa_passphrase") and "-" not in (word[0], option[:1]) and option != program:
        # htpasswd -b FILE USER PASSWORD (or -bn USER PASSWORD), wpa_passphrase SSID PASSWORD
        return whole if program == "wpa_passphrase" or any(_BATCH.fullmatch(flags) for flags in seen) else []
    if option == "--secret" and {"config", "set"} <= seen:  # pulumi config set --secret NAME VALUE
        return []
    if "--secret" in seen and {"config", "set"} <= seen and word[0] != "-":
        return whole
    if option == "add" and program == "etcdctl" and ":" in word:
        return _login(index, word)
    if option[:1] != "-":
        if option in ("password", "psk") and program == "nmcli":
            return whole
        if program == "smbclient" and option.startswith("//") and word[0] != "-":
            return whole
        if program in ("net", "net.exe") and word[0] not in "-/*\\":
            # Windows: net use [X:] \\HOST\SHARE PASSWORD, or behind /user:NAME; net user NAME PASSWORD. A shell's
            # reading leaves one of the backslashes.
            use = "use" in seen and option.lower().startswith(("\\", "/user:"))
            return whole if use or ("user" in seen and option != "user") else []
        if program == "openssl" and "passwd" in seen and word[0] != "-":
            return whole
        # aws configure set NAME VALUE, npm config set NAME VALUE, git config NAME VALUE, set -gx NAME VALUE, setx
        if seen & {"set", "--set", "config", "setx", "setenv"} and "=" not in option and names.hides(option, word):
            return whole
        return []
    if program == "openssl" and word.startswith(("file:", "env:", "fd:", "stdin")):
        return []
    if option in rules.literal:
        return whole
    if program == "openssl" and "passwd" in seen and word[0] != "-" and option not in ("-salt", "-in"):
        return whole
    if rules.user == "U" and option in ("-U", "--user") and "%" in word:
        return [(index, word.index("%") + 1, len(word))]
    if option == "-a" and "a" in rules.user and seen & {"bearer", "Bearer"}:
        return whole
    if program == "curl" and _CLUSTER.fullmatch(option) and option[-1] in rules.user:
        return _login(index, word)
    if len(option) == 2 and option[1] in rules.user:
        return _login(index, word)
    if option[2:] in _LOGIN_OPTIONS and option[:2] == "--" and ":" in word and rules.user:
        return _login(index, word)
    if option in ("-b", "--cookie") and program == "curl" and "=" in word:
        return whole
    if option in ("-E", "--cert", "--proxy-cert") and program == "curl" and ":" in word:
        return [(index, word.index(":") + 1, len(word))]
    if option in ("--oauth2-bearer", "--proxy-pass") and program == "curl":
        return whole
    if len(option) == 2 and option[1] in rules.apart and (not rules.after or rules.after in seen):
        return [] if _PORTS.fullmatch(word) and rules.after else whole
    if option == "-k" and program == "openssl" and "enc" in seen:
        return whole
    if option == "-u" and (program == "lftp" or "open" in seen) and "," in word:
        return [(index, word.index(",") + 1, len(word))]
    if option in ("-b", "--body") and program == "gh" and "secret" in seen:
        return whole
    if option == "--value" and ("SecureString" in seen or seen & {"secret", "secret:create", "secrets"}):
        return whole
    if option == "--from-literal" and "secret" in seen and "=" in word:
        return [(index, word.index("=") + 1, len(word))]
    if len(option) < 64 and word[0] != "-" and "=" not in option and len(option) > 2:
        # Not of a cluster of letters (`tar -xpwd`): a long name, or one word in full (-password, -storepass).
        named = option[:2] == "--" or (len(option) > 4 and option[1].islower())
        if named and not (option == "-pass" and word.isdigit()) and names.hides(option, word, option=True):
            return whole
    return []


def _login(index: int, word: str, start: int = 0) -> list[Found]:
    """user:password; of a proxy perhaps with its host behind an @, and as a URL, which is not ours to read."""
    if "://" in word:
        return []
    at = word.rfind("@")
    host = word[at + 1 :]
    end = at if at > start and ":" in word[start:at] and host.partition(":")[2].isdigit() else len(word)
    if ":" not in word[start:end] or (end == len(word) and _PORTS.fullmatch(word.rpartition(":")[2]) and "." in word):
        return []  # `alice`, and curl asks; `-x proxy.example:8080`
    return [(index, *span) for span in userinfo(word, start, end) if span[0] < span[1]]
