"""Secrets in a text, known by their own shape or by what stands directly before them.

Tokens of well-known makers, PEM blocks, credentials and parameters in URLs, headers, `name = value` and
`"name": "value"`. Every pattern either fails within a bounded number of characters or consumes what it looked
at (possessive quantifiers, and starts that exclude each other), so that the time is linear in the text.
"""

import re

from sidecar.core import redaction_names as names

Span = tuple[int, int]

_TOKEN = re.compile(
    r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}(?:[:,/ |]{1,3}[A-Za-z0-9/+]{40})?"  # AWS, with its secret beside
    r"|gh[opsur]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+|gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[A-Za-z0-9_.=-]{16,}+"
    r"|AIza[A-Za-z0-9_-]{30,}+|ya29\.[A-Za-z0-9_.-]{20,}+|GOCSPX-[A-Za-z0-9_-]{20,}+"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{10,}+"
    r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9_/-]{8,}+|(?<=/api/webhooks/)[A-Za-z0-9_/-]{8,}+"
    r"|eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+)*+"  # JWT; and what else is JSON in base64
    r"|(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:sk-[A-Za-z0-9_-]{16,}+|[spr]k_(?:live|test)_[A-Za-z0-9]{8,}+)"
    r"|whsec_[A-Za-z0-9+/=]{16,}+"
    r"|npm_[A-Za-z0-9]{30,}+|pypi-[A-Za-z0-9_-]{32,}+|hf_[A-Za-z0-9]{30,}+|do[opr]_v1_[a-f0-9]{32,}+"
    r"|hv[sbr]\.[A-Za-z0-9_-]{20,}+|dapi[a-f0-9]{32}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}|glsa_[A-Za-z0-9_]{20,}+"
    r"|SG\.[A-Za-z0-9_-]{16,}+(?:\.[A-Za-z0-9_-]*+)?|lin_api_[A-Za-z0-9]{20,}+|AGE-SECRET-KEY-1[A-Z0-9]{20,}+"
    r"|(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"  # Telegram
)
# A run of letters and digits that is nobody's word: see `_looks_drawn`.
_RANDOM = re.compile(r"(?<![A-Za-z0-9_+-])[A-Za-z0-9_+-]{30,}+={0,2}")
_CLASS_CHANGE = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])")
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{1,60}+-----")
_PEM_BODY = re.compile(r"[A-Za-z0-9+/]{16}")
_PEM_DIRECT = re.compile(r"\s*+(?:[A-Za-z0-9+/]{16}|(?<=\n).)|(?:\\+[rn])", re.DOTALL)
_PEM_END = re.compile(r"[A-Z0-9 ]{0,60}+-----")

_RUN = re.compile(r"\S++")
_AUTHORITY = re.compile(r"[^/?#\s\"'`<>\\]*+")
_USER_ONLY = re.compile(r"[A-Za-z][A-Za-z._-]{0,14}+")
_PORT = re.compile(r"[0-9$A-Z_{}]*+")
_LOGIN_BY_KEY = ("ssh", "sftp", "rsync", "scp", "git", "svn", "hg")

_HEADER = re.compile(
    r"(?i)(?<![a-z0-9_-])(?:-H)?(?:(?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?[a-z0-9-]{0,40}?(?:api-?key|token|"
    r"secret|subscription-key|functions-key))(?P<quote>\\?[\"'])?[ \t]{0,8}(?::|=(?=[ \t]{0,8}Bearer))[ \t]{0,8}"
    r"(?P<opening>\\?[\"'])?"
)
_HEADER_FOREVER = re.compile(r"(?i)(?:-H)?(?:(?:proxy-)?authorization|(?:set-)?cookie)")
_HEADER_VALUE = re.compile(r"[^\"'\n\\]*+")
_LINE = re.compile(r"[^\n]*+")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|negotiate|apikey|api-key)(?:[ \t]++|$)")
_BEARER = re.compile(r"(?i)(?<![a-z0-9_-])bearer[ \t]{1,8}([A-Za-z0-9_.~+/=-]{16,}+)")

_PAIR = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z0-9_.-]++)(?P<quote>\\*[\"']\]?|\])?[ \t]*+"
    r"(?P<sign>=>|:=|\+?={1,3}|:)[ \t]*+"
)
_VALUE = re.compile(r"[^\s&]*+")
_ARRAY = re.compile(r"\([^()\n]{0,512}+\)")
_SCRIPT_VALUE = re.compile(r"[^\s;|&()<>\"'`]*+")
_QUOTED = {'"': re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL), "'": re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL)}
_AFTER_A_VALUE = frozenset(("", ")", "}", ",", ";", "\n"))
_QUERY_ONLY = frozenset(
    ("sig", "signature", "x-amz-signature", "x-amz-credential", "x-goog-signature", "pass", "pwd", "pw", "jwt")
)
_QUERY_RANDOM = frozenset({"key", "code", "sas", "hmac", "auth", "state", "ticket", "session", "sid", "nonce"})
_SQL = re.compile(r"(?i)(?<![a-z0-9_])(?:identified[ \t]{1,8}by|password)[ \t]{1,8}(?:'([^'\n]++)'|\"([^\"\n]++)\")")
_SET_PASSWORD = re.compile(
    r"(?i)(?<![a-z0-9_])set[ \t]{1,8}password[^\n=]{0,160}=[ \t]{0,8}(?:password\()?['\"]([^'\"\n]++)"
)
_PSERVER = re.compile(r":pserver:[^:@\s]{1,64}+:([^@\s]{1,256}+)@")
_EXPECT = re.compile(r"(?i)(?:assword|assphrase)[^\n]{0,80}?\bsend[ \t]{1,8}(?:--[ \t]{1,8})?[\"']([^\"'\n\\]++)")
_XML = re.compile(r"<([A-Za-z][A-Za-z0-9_.:-]{0,60}+)>([^<>]++)</")
_BASIC = re.compile(
    r"(?<![A-Za-z0-9_])auth[ \t]{0,4}=[ \t]{0,4}[(\[]\s{0,4}[\"'][^\"'\n]{0,128}[\"'],\s{0,4}[\"']([^\"'\n]++)"
)
_NETRC = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:login|account)\s{1,8}\S{1,128}?(?:\s|\\[nrt]){1,8}password\s{1,8}(\S++)"
)


def find(text: str, *, script: bool) -> list[Span]:
    """What to take out. In a script a bare value ends where a word of the shell does; else at a blank."""
    spans = [match.span() for match in _TOKEN.finditer(text)]
    if "-----BEGIN " in text:
        spans += _pem(text)
    if "://" in text:
        spans += _urls(text)
    if ":" in text or "=" in text:
        spans += _headers(text, script=script)
        spans += _pairs(text, script=script)
    spans += [match.span() for match in _RANDOM.finditer(text) if _looks_drawn(match[0])]
    for pattern in (_BEARER, _SQL, _SET_PASSWORD, _EXPECT, _NETRC, _BASIC, _PSERVER):
        for match in pattern.finditer(text):
            group = match.lastindex or 0
            if pattern is _BEARER and not names.looks_random(match[group]):
                continue
            if not names.is_reference(match[group]):
                spans.append(match.span(group))
    if "</" in text:
        spans += [match.span(2) for match in _XML.finditer(text) if names.hides(match[1], match[2])]
    return [span for span in spans if span[0] < span[1]]


def _looks_drawn(run: str) -> bool:
    """Drawn from an urn rather than written by somebody: capitals, small letters and digits, and every second
    character of another kind than the one before. Of letters and digits at random 62 % are; of a name in camel
    case with numbers in it hardly a half.
    """
    changes = len(_CLASS_CHANGE.findall(run))
    lengths = sum(map(str.isdigit, run)) >= 3 and any(map(str.islower, run)) and any(map(str.isupper, run))
    return lengths and changes * 2 >= len(run)


def _pem(text: str) -> list[Span]:
    spans: list[Span] = []
    position = 0
    ended = False
    while (begin := _PEM_BEGIN.search(text, position)) is not None:
        end = -1 if ended else text.find("-----END ", begin.end())
        ended = end < 0
        if ended:
            if _PEM_DIRECT.match(text, begin.end()) is not None:
                spans.append((begin.start(), len(text)))
                break
            position = begin.end()
            continue
        rest = _PEM_END.match(text, end + 9)
        position = end + 9 if rest is None else rest.end()
        if _PEM_BODY.search(text, begin.end(), end) is not None:
            spans.append((begin.start(), position))
    return spans


def _urls(text: str) -> list[Span]:
    spans: list[Span] = []
    for run in _RUN.finditer(text):
        last_at = text.rfind("@", run.start(), run.end())
        position = run.start()
        # Without an `@` behind it, no URL has credentials.
        while (colon := text.find("://", position, max(position, last_at))) >= 0:
            start = colon + 3
            authority = _AUTHORITY.match(text, start, run.end())
            end = start if authority is None else authority.end()
            at = text.rfind("@", start, end)
            position = max(end, start)
            if at >= 0:
                spans += userinfo(text, start, at, scheme=_scheme(text, run.start(), colon))
                continue
            password = -1 if text.startswith("[", start) else text.find(":", start, end)  # [::1] is a host
            if password >= 0 and _PORT.fullmatch(text, password + 1, end) is None:
                spans.append((password + 1, last_at))  # a `/`, `?` or quote that should have been encoded
                position = last_at
    return spans


def _scheme(text: str, start: int, colon: int) -> str:
    begin = max(start, colon - 16)
    return re.split(r"[^A-Za-z0-9+.-]", text[begin:colon])[-1].lower()


def userinfo(text: str, start: int, at: int, *, scheme: str = "https") -> list[Span]:
    """The secret of text[start:at], which is `user:password`, `user` or a token that stands for both."""
    user_end = text.find(":", start, at)
    if user_end < 0:
        user = text[start:at]
        by_key = any(scheme.endswith(kind) for kind in _LOGIN_BY_KEY)
        if by_key or len(user) < 8 or _USER_ONLY.fullmatch(user) or names.is_reference(user):
            return []
        return [(start, at)]
    user, password = text[start:user_end], text[user_end + 1 : at]
    spans = [] if names.is_reference(password) else [(user_end + 1, at)]
    if (password in ("", "x-oauth-basic", "x") and len(user) >= 8) or (len(user) >= 20 and names.looks_random(user)):
        spans.append((start, user_end))
    return spans


def _headers(text: str, *, script: bool) -> list[Span]:
    spans: list[Span] = []
    position = 0
    while (match := _HEADER.search(text, position)) is not None:
        start = match.end()
        if match["opening"] and match["quote"] is None and text.endswith(match["opening"], 0, match.start()):
            position = start  # `grep 'Authorization:' -r src`: that quote closes
            continue
        # To the end of the line where the header is all there is; in quotes, or in a script, to the next quote.
        whole = not script and match["quote"] is None and match["opening"] is None
        value = (_LINE if whole and match.start() == 0 else _HEADER_VALUE).match(text, start)
        end = start if value is None else value.end()
        position = max(end, start)
        scheme = _SCHEME.match(text, start, end)
        if scheme is not None:
            start = scheme.end()
        # `token: fix the parser` is a sentence.
        sure = match.start() == 0 or match["quote"] or match["opening"] or _HEADER_FOREVER.match(match[0])
        content = text[start:end].strip()
        if not content or names.is_reference(content):
            continue
        if match[0].lower().startswith("cookie") and "=" not in content:
            continue
        if not (_HEADER_FOREVER.match(match[0]) or "-" in match[0] or names.looks_made_up(content[:64].split()[0])):
            continue
        if sure or scheme is not None:
            spans.append((start, end))
    return spans


def _pairs(text: str, *, script: bool) -> list[Span]:
    spans: list[Span] = []
    position = 0
    closed = {'"': True, "'": True}
    while (match := _PAIR.search(text, position)) is not None:
        position = match.end()
        query = match.start() > 0 and text[match.start() - 1] in "?&"
        name = match["name"]
        if not (names.is_secret(name) or (query and _in_query(name))):
            continue  # from behind the sign: in `-e=TOKEN=x` the value is the next name
        start, end = _value(text, position, closed, script=script)
        value = text[start:end]
        if len(value) > names.MAX_READ:
            taken = True
        elif match["sign"] == ":":
            quoted = text[position : position + 1] in ("'", '"') and text[end + 1 : end + 2] in _AFTER_A_VALUE
            told = match["quote"] is not None or (quoted and " " not in value)
            taken = told or _begins_line(text, match.start()) or names.looks_made_up(value)
            taken = taken and not value.startswith("//") and names.hides(name, value)
        elif query and _in_query(name):
            taken = name.lower() in _QUERY_ONLY or names.looks_random(value)
            taken = taken and not names.is_reference(value)
        else:
            taken = names.hides(name, value)
        if taken:
            spans.append((start, end))
            position = max(position, end)
    return spans


def _in_query(name: str) -> bool:
    return name.lower() in _QUERY_ONLY or name.lower() in _QUERY_RANDOM


def _value(text: str, start: int, closed: dict[str, bool], *, script: bool) -> Span:
    """Where the value at `start` is: what is between its quotes, else up to where a bare one ends."""
    if script and text.startswith("(", start):
        # An array: all that is between the brackets.
        array = _ARRAY.match(text, start)
        if array is not None:
            return start + 1, array.end() - 1
    opening = start
    while text.startswith("\\", opening) and opening < start + 8:
        opening += 1
    quote = text[opening : opening + 1]
    if closed.get(quote):
        if opening > start:  # \"...\", quoted once more
            end = text.find(text[start : opening + 1], opening + 1)
            if end >= 0:
                return opening + 1, end
        else:
            content = _QUOTED[quote].match(text, opening + 1)
            if content is not None and text.startswith(quote, content.end()):
                return opening + 1, content.end()
            closed[quote] = False
        start = opening + 1
    bare = (_SCRIPT_VALUE if script else _VALUE).match(text, start)
    return start, start if bare is None else bare.end()


def _begins_line(text: str, start: int) -> bool:
    """In a text of several lines; up to 64 blanks and a list's dash may stand before."""
    index = start
    while index > max(0, start - 64) and text[index - 1] in " \t-":
        index -= 1
    return (index > 0 and text[index - 1] == "\n") or (index == 0 and "\n" in text[start : start + 512])
