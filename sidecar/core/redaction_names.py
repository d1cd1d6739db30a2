"""Which names are the names of secrets, and which values are none although they stand beside such a name.

A name is taken apart at `_`, `-`, `.` and where camelCase turns; what decides is its words, so that TOKEN,
GITHUB_TOKEN, authToken and PGPASSWORD are secrets, and tokenizer, author, TOKEN_FILE and max_tokens are not.
"""

import re


def listed(text: str) -> frozenset[str]:
    """A set of the words of `text`."""
    return frozenset(text.split())


_PART = re.compile(r"[A-Z]++(?![a-z])|[A-Z]?[a-z]++|[A-Z]")
_REFERENCE = re.compile(r"\$[A-Z_][A-Z0-9_]*+|\$\{[A-Z_][A-Z0-9_]*+\}|%[A-Z_][A-Z0-9_]*+%")
_DIGITS = re.compile(r"[0-9]++")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@/-]*+")
_SYMBOL = re.compile(r"[^A-Za-z.,:;!?'\"/()\s-]")

# A word of a name that makes it a secret's, alone or as the end of a run-together word (pgpassword, authtoken).
_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "sharedkey",
    "credential",
    "credentials",
    "storepass",
    "keypass",
    "authkey",
)
_WORDS = frozenset({"pwd", "creds", "cred", "tokens", "passwords", "secrets", "authorization", "pw"})
_KEY_KINDS = listed(
    "api access private secret account encryption signing master shared auth service license session admin host "
    "subscription deploy jwt hmac aes rsa age functions storage app application client integration instrumentation"
)
# The name of something about the secret: where it is, how long it lives.
_ABOUT = listed(
    "file files path dir directory folder url uri type mode method provider name names sock socket host port enabled "
    "ttl expiry expires expiration lifetime length len policy version arn prefix header user username plugin endpoint "
    "count limit limits size timeout manager store helper engine stdin env id ids format algorithm source "
    "strategy backend class service field param parameter prompt command cmd domain audience issuer server "
    "enable disable required hint budget fd ref"
)
_VERBS = listed(
    "export import no ask prompt show skip with disable enable use require requires allow read ignore has is verify "
    "check generate get print list rotate reset delete hide mask max min num"
)
_PLACES = listed("pagination page next starting start continuation continue resume end stop eos bos pad")
"""Before `token`: a place in a list or a text, no secret."""
MAX_READ = 512
"""Beyond this a value is not looked into, it goes: what is kept would have to be read again (linear time)."""
_NOTHING = frozenset({"", "null", "none", "nil", "true", "false", "undefined", "yes", "no", "on", "off", "-", "$"})


def parts(name: str) -> list[str]:
    """The words of a name, in lower case, digits dropped."""
    return [part.lower() for part in _PART.findall(name)]


def is_secret(name: str) -> bool:
    """Whether what is assigned to `name` is a secret."""
    words = parts(name)
    if not words:
        return False
    if words[-1] in _ABOUT and words[-2:] != ["secret", "id"]:
        return False
    if words[-1] in ("pass", "auth", "cookie", "cookies", "otp", "totp"):
        return True
    if words[-1] in ("token", "tokens") and words[-2:-1] and words[-2] in _PLACES:
        return False
    if words[0] == "auth" and len(words) == 2 and words[1] in ("key", "data", "value", "string", "config"):
        return True
    if any(word in _WORDS or word.endswith(_ENDINGS) for word in words):
        return not (words[-1] == "tokens" and words[0] in ("max", "min", "num", "n", "total", "prompt", "completion"))
    return any(word == "key" and index > 0 and words[index - 1] in _KEY_KINDS for index, word in enumerate(words))


def is_weak(name: str) -> bool:
    """A secret's name that is just as often another thing's: then the value has to look like a secret."""
    return (
        name != name.upper()
        and name[0] != "_"
        and parts(name)[-1:] in (["auth"], ["cookie"], ["cookies"], ["pw"], ["creds"])
    )


def is_secret_option(option: str) -> bool:
    """Whether `option` (`--password`, `-storepass`) takes a secret as its next word."""
    words = parts(option)
    if option == "--secret-id":  # of AWS: the secret's name
        return False
    return is_secret(option) and words[0] not in _VERBS


def looks_random(value: str) -> bool:
    """Rather a token than a word: some length, and digits."""
    return len(value) >= 16 and _DIGITS.search(value) is not None


def looks_made_up(value: str) -> bool:
    """Rather a password than a word of a sentence."""
    return len(value) >= 6 and _SYMBOL.search(value) is not None


def is_reference(value: str) -> bool:
    """Names a secret without being one: $TOKEN, ${TOKEN}, $(pass show x)."""
    return (
        _REFERENCE.fullmatch(value) is not None
        # Perhaps only its beginning, where a blank ended what was read.
        or (value.startswith("$(") and (")" not in value or value.rstrip("\"',;").endswith(")")))
        or (value.startswith("`") and value.endswith("`"))
        or (value.startswith("${{") and value.endswith("}}"))
    )


def hides(name: str, value: str, *, option: bool = False) -> bool:
    """Whether `value`, given for `name`, is to go. Of an option (`--auth basic`) weak names need more."""
    if not (is_secret_option(name) if option else is_secret(name)):
        return False
    if len(value) > MAX_READ:
        return True
    if value.lower() in _NOTHING or is_reference(value):
        return False
    words = parts(name)
    if words[-1] == "tokens" and value.isdigit():
        return False
    if words == ["pwd"] and value.startswith(("/", "~", ".")):
        return False  # the folder
    key = words[-1] == "privatekey" or words[-2:] in (["private", "key"], ["ssh", "key"], ["deploy", "key"])
    if key and _PATH.fullmatch(value):
        return False  # a file that holds the key
    if words == ["secret"] and value.startswith(("id=", "type=")):
        return False  # docker build --secret id=...: where to find it
    return not is_weak(name) or ":" in value or looks_random(value)
