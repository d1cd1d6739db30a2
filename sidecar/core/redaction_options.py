"""Secrets among the words of a command: options by their names, and by what is known of well-known programs.

Words only; what is in a word (URLs, tokens, headers) is `redaction_shapes`'s business. The program is the last
word that names one we know, so that `sudo -u x mysql -p...` and `docker exec db mysql -p...` need no list of
all that may stand in front.
"""

import re
from typing import NamedTuple

from sidecar.core import redaction_names as names
from sidecar.core.redaction_names import listed
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
_LOGON = re.compile(r"[^/\s@]++/(?P<password>[^@\s]++)(?:@\S*+)?")


class _Program(NamedTuple):
    """Letters of the options whose value is a secret: glued to it (-pX), apart (-p X); `user` ones hold user:password.

    `after` is a word that must stand before (`docker login -p X`).
    """

    glued: str = ""
    apart: str = ""
    user: str = ""
    after: str = ""


_MYSQL = _Program(glued="p")
_MONGO = _Program(glued="p", apart="p")
_LOGIN = _Program(apart="p", after="login")
_LDAP = _Program(glued="w", apart="w")
_ARCHIVE = _Program(glued="p")
_PLAIN = _Program()
_PROGRAMS: dict[str, _Program] = {
    **dict.fromkeys(
        listed(
            "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlbinlog mysqlslap mysqlpump mysqlsh mycli "
            "mariadb mariadb-dump mariadb-admin mariadb-import mariadb-check mariadb-show mariadb-backup xtrabackup"
        ),
        _MYSQL,
    ),
    **dict.fromkeys(listed("mongo mongosh mongodump mongorestore mongoexport mongoimport cqlsh"), _MONGO),
    **dict.fromkeys(listed("docker podman nerdctl buildah skopeo helm crane oras az oc regctl"), _LOGIN),
    **dict.fromkeys(listed("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare ldappasswd"), _LDAP),
    **dict.fromkeys(listed("7z 7za 7zz 7zr rar unrar"), _ARCHIVE),
    "zip": _Program(apart="P"),
    "unzip": _Program(glued="P", apart="P"),
    "sshpass": _Program(glued="p", apart="p"),
    "curl": _Program(glued="", user="uUx"),
    "http": _Program(user="a"),
    "https": _Program(user="a"),
    "xh": _Program(user="a"),
    "redis-cli": _Program(apart="a"),
    "sqlcmd": _Program(glued="P", apart="P"),
    "bcp": _Program(glued="P", apart="P"),
    "mosquitto_pub": _Program(apart="P"),
    "mosquitto_sub": _Program(apart="P"),
    "ipmitool": _Program(apart="P"),
    "rabbitmqadmin": _Program(apart="p"),
    "twine": _Program(apart="p"),
    "ssh-keygen": _Program(apart="NP"),
    "snmpwalk": _Program(apart="AX"),
    "snmpget": _Program(apart="AX"),
    "useradd": _Program(apart="p"),
    "usermod": _Program(apart="p"),
    "smbclient": _PLAIN,
    "openssl": _PLAIN,
    "sqlplus": _PLAIN,
    "lftp": _PLAIN,
    "vault": _PLAIN,
    "cargo": _PLAIN,
    "htpasswd": _PLAIN,
    "wpa_passphrase": _PLAIN,
    "nmcli": _PLAIN,
    # Their options of the same letters are none of the above's.
    **dict.fromkeys(
        listed("ssh scp sftp rsync git mkdir cp tar make npm pip python python3 node kubectl gh psql"), _PLAIN
    ),
}
# What follows these is a name, not the program that is run.
_NAMING = listed("--name --hostname -h --host --network --link --image --package --service -l --label")


def find(words: list[str]) -> list[Found]:
    """What to take out of the words of one command."""
    found: list[Found] = []
    program, rules = "", _PLAIN
    seen: set[str] = set()
    previous = ""
    for index, word in enumerate(words):
        base = word.rpartition("/")[2] if len(word) < 256 else ""
        known = base in _PROGRAMS and previous not in _NAMING and word[:1] != "-"
        # In `docker run mysql` an image's name is no program yet; `exec db mysql`, `run mysql mysql` have one.
        if known and (not rules.after or seen & {"exec", base}):
            program, rules = base, _PROGRAMS[base]
        found += _in_word(index, word, program, rules, seen)
        if index > 0:
            found += _after(index, previous, word, program, rules, seen)
        if len(word) < 32:
            seen.add(word)
        previous = word
    return found


_FROM_STDIN = frozenset({"--password-stdin", "--with-token", "--passphrase-fd", "--stdin", "chpasswd"})


def piped(words: list[str], reader: list[str]) -> list[Found]:
    """What `echo` or `printf` hands to the next command, where that one reads a secret there."""
    if not words or words[0] not in ("echo", "printf") or _FROM_STDIN.isdisjoint(reader):
        return []
    return [
        (index, 0, len(word))
        for index, word in enumerate(words)
        if index > 0 and word and word[0] != "-" and "%s" not in word and not names.is_reference(word)
    ]


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


def _in_word(index: int, word: str, program: str, rules: _Program, seen: set[str]) -> list[Found]:
    """The secret that one word holds by itself: NAME=value, --name=value, -pvalue."""
    start = 0
    for _ in range(4):  # --build-arg=NPM_TOKEN=x
        assignment = _ASSIGNMENT.match(word, start)
        if assignment is None:
            break
        start = assignment.end()
        name = assignment["name"]
        option = assignment[0][0] == "-" and name != name.upper()
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
    if program == "sqlplus" and (logon := _LOGON.fullmatch(word)) is not None:
        return [(index, *logon.span("password"))]
    if program == "rar" and word.startswith("-hp") and len(word) > 3:
        return [(index, 3, len(word))]
    return []


def _after(index: int, option: str, word: str, program: str, rules: _Program, seen: set[str]) -> list[Found]:
    """The secret that `word` is because of the word before it."""
    if not word or names.is_reference(word):
        return []
    whole = [(index, 0, len(word))]
    if program in ("htpasswd", "wpa_passphrase") and "-" not in (word[0], option[0]) and option != program:
        # htpasswd -b FILE USER PASSWORD (or -bn USER PASSWORD), wpa_passphrase SSID PASSWORD
        return whole if program == "wpa_passphrase" or any(_BATCH.fullmatch(flags) for flags in seen) else []
    if option[:1] != "-":
        if option in ("password", "psk") and program == "nmcli":
            return whole
        if option == "login" and program in ("vault", "cargo") and word[0] != "-" and "=" not in word:
            return whole
        # aws configure set NAME VALUE, npm config set NAME VALUE, git config NAME VALUE, set -gx NAME VALUE, setx
        if seen & {"set", "config", "setx", "setenv"} and "=" not in option and names.hides(option, word):
            return whole
        return []
    if program == "curl" and _CLUSTER.fullmatch(option) and option[-1] in rules.user:
        return _login(index, word)
    if len(option) == 2 and option[1] in rules.user:
        return _login(index, word)
    if option in ("--user", "--proxy-user", "--proxy", "--auth", "--preproxy") and (":" in word) and rules.user:
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
    if option == "-U" and program == "smbclient" and "%" in word:
        return [(index, word.index("%") + 1, len(word))]
    if option == "-u" and program == "lftp" and "," in word:
        return [(index, word.index(",") + 1, len(word))]
    if option in ("-b", "--body") and program == "gh" and "secret" in seen:
        return whole
    if option == "--value" and "put-parameter" in seen and "SecureString" in seen:
        return whole
    if option == "--from-literal" and "secret" in seen and "=" in word:
        return [(index, word.index("=") + 1, len(word))]
    if len(option) < 64 and word[0] != "-" and "=" not in option and len(option) > 2:
        # Not of a cluster of letters (`tar -xpwd`): a long name, or one word in full (-password, -storepass).
        named = option[:2] == "--" or (len(option) > 4 and option[1].islower())
        if named and not (option == "-pass" and word.isdigit()) and names.hides(option, word, option=True):
            return whole
    return []


def _login(index: int, word: str) -> list[Found]:
    """user:password; of a proxy perhaps with its host behind an @, and as a URL, which is not ours to read."""
    if "://" in word:
        return []
    at = word.rfind("@")
    host = word[at + 1 :]
    end = at if at > 0 and ":" in word[:at] and host.partition(":")[2].isdigit() else len(word)
    if ":" not in word[:end] or (end == len(word) and _PORTS.fullmatch(word.rpartition(":")[2]) and "." in word):
        return []  # `alice`, and curl asks; `-x proxy.example:8080`
    return [(index, *span) for span in userinfo(word, 0, end) if span[0] < span[1]]
