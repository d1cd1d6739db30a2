"""Secrets go, ordinary commands come out as they were, and the time is linear.

The secrets are made up, and put together at run time: a scanner of this repository is not to find one.
"""

import shlex
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.redaction import MAX_BYTES, REDACTED, redact
from sidecar.core.redaction_words import split

# Long enough for every shape, obviously no secret, and no 8 characters of it are in any command around it.
FAKE = "F4keF4ke" + "Zq9Xw8Yv7" + "N0tReal5" + "Kj6Hg3Qz" + "Q1w2E3r4"
PASSWORD = "Hunter2" + "-n0t-R3al"
SPACED = "n0t a R3al " + "passw0rd!"
AWS_ID = "AKIA" + "F4KE" * 4
AWS_SECRET = "Zf4kE/" + "n0tR3al+" * 4 + "Ab12"
GITHUB = "ghp" + "_" + FAKE[:36]
GITHUB_PAT = "github" + "_pat_" + FAKE[:22] + "_" + FAKE
GITLAB = "glpat" + "-" + FAKE[:20]
GOOGLE = "AIza" + FAKE[:35]
SLACK = "xoxb" + "-123456789012-" + FAKE[:24]
JWT = "eyJ" + "hbGciOiJmYWtlIn0" + ".eyJ" + "zdWIiOiJmYWtlIn0" + "." + FAKE
OPENAI = "sk" + "-proj-" + FAKE
ANTHROPIC = "sk" + "-ant-api03-" + FAKE
NPM = "npm" + "_" + FAKE[:36]
STRIPE = "sk" + "_live_" + FAKE[:24]
HUGGING = "hf" + "_" + FAKE[:34]
VAULT = "hvs" + "." + FAKE[:24]
SENDGRID = "SG" + "." + FAKE[:22] + "." + FAKE
HEX = "f4ce" * 10
PEM_BODY = "MIIFake" + FAKE + "/" + FAKE
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{PEM_BODY}\n-----END RSA {'PRIVATE'} KEY-----"
PEM_JSON = PEM.replace("\n", "\\n")


class Case(NamedTuple):
    secret: str
    argv: list[str]


def sh(secret: str, script: str) -> Case:
    return Case(secret, ["sh", "-c", script])


def words(secret: str, *argv: str) -> Case:
    return Case(secret, list(argv))


SECRETS = [
    # URLs
    words(PASSWORD, "git", "clone", f"https://alice:{PASSWORD}@git.example/x.git"),
    words(GITHUB, "git", "clone", f"https://{GITHUB}@github.com/o/r.git"),
    words(HEX, "git", "clone", f"https://{HEX}@git.example/r.git"),
    words(HEX, "git", "clone", f"https://{HEX}:x-oauth-basic@github.com/o/r.git"),
    words(PASSWORD, "psql", f"postgresql://app:{PASSWORD}@db:5432/app?sslmode=require"),
    words(PASSWORD + "/x@y", "psql", f"postgres://app:{PASSWORD}/x@y@db/app"),
    words(PASSWORD, "redis-cli", "-u", f"redis://:{PASSWORD}@cache:6379/0"),
    sh(PASSWORD, f"pip install --index-url https://ci:{PASSWORD}@pypi.example/simple pkg"),
    words(PASSWORD, "curl", f"https://api.example/v1?user=a&password={PASSWORD}&x=1"),
    words(FAKE, "curl", f"https://api.example/v1?access_token={FAKE}"),
    words(FAKE, "curl", f"https://s3.example/o?X-Amz-Date=1&X-Amz-Signature={FAKE}"),
    words(FAKE, "azcopy", "cp", "a", f"https://x.blob.example/c?sv=2024&sig={FAKE}"),
    words(FAKE, "curl", f"https://maps.example/api?q=a&key={FAKE}"),
    words(FAKE[:24], "curl", "-d", "{}", f"https://hooks.slack.com/services/T0/B0/{FAKE[:24]}"),
    # options
    words(PASSWORD, "mysql", "-uroot", f"-p{PASSWORD}", "app"),
    sh(PASSWORD, f"mysqldump -u root -p'{PASSWORD}' app | gzip > /tmp/x.gz"),
    words(PASSWORD, "sudo", "-u", "db", "mysqladmin", f"-p{PASSWORD}", "status"),
    words(PASSWORD, "docker", "exec", "db", "mysql", f"-p{PASSWORD}"),
    words(PASSWORD, "docker", "exec", "db", "sh", "-c", f'mysql -uroot -p"{PASSWORD}" -e "select 1"'),
    words(PASSWORD, "mysql", f"--password={PASSWORD}"),
    words(SPACED, "svn", "up", "--password", SPACED),
    words(PASSWORD, "sshpass", "-p", PASSWORD, "ssh", "-p", "22", "host"),
    words(PASSWORD, "sshpass", f"-p{PASSWORD}", "scp", "a", "host:b"),
    words(PASSWORD, "docker", "login", "-u", "me", "-p", PASSWORD, "registry.example"),
    words(PASSWORD, "mongosh", "-u", "me", "-p", PASSWORD, "db"),
    words(PASSWORD, "redis-cli", "-h", "cache", "-a", PASSWORD, "ping"),
    words(PASSWORD, "ldapsearch", "-x", "-D", "cn=admin", "-w", PASSWORD),
    words(PASSWORD, "7z", "x", f"-p{PASSWORD}", "a.7z"),
    words(PASSWORD, "unzip", "-P", PASSWORD, "a.zip"),
    words(PASSWORD, "openssl", "rsa", "-in", "k.pem", "-passin", f"pass:{PASSWORD}"),
    words(PASSWORD, "keytool", "-list", "-storepass", PASSWORD, "-keystore", "k.jks"),
    words(PASSWORD, "curl", "-u", f"alice:{PASSWORD}", "https://api.example"),
    words(PASSWORD, "curl", "-sSfu", f"alice:{PASSWORD}", "https://api.example"),
    words(PASSWORD, "curl", f"-ualice:{PASSWORD}", "https://api.example"),
    words(PASSWORD, "curl", "--user", f"alice:{PASSWORD}", "https://api.example"),
    words(PASSWORD, "curl", "-x", f"me:{PASSWORD}@proxy:8080", "https://api.example"),
    words(FAKE, "curl", "-u", f"{FAKE}:", "https://api.example"),
    words(FAKE, "curl", "-b", f"session={FAKE}", "https://api.example"),
    words(PASSWORD, "http", "-a", f"alice:{PASSWORD}", "https://api.example"),
    words(PASSWORD, "sqlplus", f"scott/{PASSWORD}@orcl"),
    words(PASSWORD, "smbclient", "//h/s", "-U", f"me%{PASSWORD}"),
    words(FAKE, "deploy", "--token", FAKE, "now"),
    words(FAKE, "deploy", f"--api-key={FAKE}"),
    words(FAKE, "deploy", "--client-secret", FAKE),
    words(AWS_SECRET, "aws", "configure", "set", "aws_secret_access_key", AWS_SECRET),
    words(FAKE, "npm", "config", "set", "//registry.example/:_authToken", FAKE),
    words(FAKE, "npm", "config", "set", f"//registry.example/:_authToken={FAKE}"),
    words(FAKE, "kubectl", "create", "secret", "generic", "x", f"--from-literal=conn={FAKE}"),
    words(FAKE, "gh", "secret", "set", "DEPLOY", "--body", FAKE),
    words(PASSWORD, "helm", "install", "x", "--set", f"db.user=a,db.password={PASSWORD}"),
    words(FAKE, "docker", "build", "--build-arg", f"NODE_AUTH_TOKEN={FAKE}", "."),
    words(FAKE, "docker", "build", f"--build-arg=NODE_AUTH_TOKEN={FAKE}", "."),
    words(SPACED, "docker", "run", "-e", f"DB_PASSWORD={SPACED}", "img"),
    words(PASSWORD, "java", f"-Ddb.password={PASSWORD}", "-jar", "x.jar"),
    words(FAKE, "vault", "login", FAKE),
    words(FAKE, "vault", "write", "auth/approle/login", "role_id=r", f"secret_id={FAKE}"),
    # headers
    words(FAKE, "curl", "-H", f"Authorization: Bearer {FAKE}", "https://api.example"),
    words(FAKE, "curl", f"-HAuthorization: Token {FAKE}", "https://api.example"),
    words(FAKE, "curl", f"--header=X-Api-Key: {FAKE}"),
    words(PASSWORD, "wget", f"--header=Proxy-Authorization: Basic {PASSWORD}", "https://x.example"),
    words(FAKE, "curl", "-H", f'Cookie: a="b c"; session="{FAKE}"', "https://api.example"),
    words(FAKE, "curl", "-H", f"Private-Token: {FAKE}", "https://git.example"),
    words(FAKE, "git", "-c", f"http.extraHeader=Authorization: Basic {FAKE}", "fetch"),
    sh(FAKE, f'curl -sH "Authorization: Bearer {FAKE}" https://api.example | jq .'),
    sh(FAKE, f"curl -H Authorization:\\ Bearer\\ {FAKE} https://api.example"),
    sh(FAKE, f"cat <<EOF | nc h 80\nGET / HTTP/1.1\nAuthorization: Bearer {FAKE}\n\nEOF"),
    # tokens by their shape
    words(AWS_ID, "echo", AWS_ID),
    words(AWS_SECRET, "echo", f"{AWS_ID}:{AWS_SECRET}"),
    words(AWS_SECRET, "env", f"AWS_SECRET_ACCESS_KEY={AWS_SECRET}", "aws", "s3", "ls"),
    words(GITHUB, "echo", f"x{GITHUB}"),
    words(GITHUB_PAT, "echo", GITHUB_PAT),
    words(GITLAB, "echo", GITLAB),
    words(GOOGLE, "echo", f"'{GOOGLE}'"),
    words(SLACK, "notify", SLACK),
    words(JWT, "decode", JWT),
    words(OPENAI, "echo", OPENAI),
    words(ANTHROPIC, "python", "-c", f"Client('{ANTHROPIC}').run()"),
    words(NPM, "sh", "-c", f"echo '//r/:_x={NPM}' > .npmrc"),
    words(STRIPE, "stripe", "listen", STRIPE),
    words(HUGGING, "echo", HUGGING),
    words(VAULT, "echo", VAULT),
    words(SENDGRID, "echo", SENDGRID),
    words(PEM_BODY, "sh", "-c", f"cat > k.pem <<'EOF'\n{PEM}\nEOF\nchmod 600 k.pem"),
    words(PEM_BODY, "echo", PEM),
    words(PEM_BODY, "echo", PEM.partition("\n-----END")[0]),
    words(PEM_BODY, "echo", f'{{"type":"service_account","private_key":"{PEM_JSON}"}}'),
    # assignments, wherever they stand
    sh(FAKE, f"export GITHUB_TOKEN={FAKE}; make release"),
    sh(FAKE, f"cd /x && API_KEY={FAKE} ./run --fast"),
    sh(SPACED, f"export DB_PASSWORD='{SPACED}' && ./run"),
    sh(SPACED, f'PGPASSWORD="{SPACED}" psql -h db'),
    sh(SPACED, "PASSPHRASE=" + SPACED.replace(" ", "\\ ").replace("!", "\\!") + " gpg -d x"),
    sh(PASSWORD, f"MYSQL_PWD={PASSWORD} mysql"),
    sh(FAKE, f"cat > .env <<EOF\nNAME=x\nSECRET_KEY={FAKE}\nEOF"),
    sh(SPACED, f'cat > .env <<EOF\nit\'s here\nPASSWORD="{SPACED}"\nEOF'),
    sh(PASSWORD, f"cat > c.yml <<EOF\ndb:\n  user: a\n  password: {PASSWORD}\nEOF"),
    sh(PASSWORD, f"bash -c \"sh -c 'mysql -p{PASSWORD} x'\""),
    sh(FAKE, f"ssh host 'TOKEN={FAKE} make'"),
    sh(FAKE, f"echo $(curl -u me:{FAKE} https://x.example)"),
    sh(SPACED, f"export SECRET=$'{SPACED}'"),
    words(SPACED, "ssh", "host", f"export AUTH='{SPACED}'; make"),
    words(FAKE, "fish", "-c", f"set -gx MY_TOKEN {FAKE}"),
    words(PASSWORD, "curl", "-d", f'{{"user":"a","password":"{PASSWORD}"}}', "https://api.example"),
    words(PASSWORD, "curl", "--data", f"user=a&password={PASSWORD}"),
    sh(PASSWORD, f'curl -d "{{\\"user\\":\\"a\\",\\"password\\":\\"{PASSWORD}\\"}}" https://api.example'),
    words(PASSWORD, "python3", "-c", f"login(user='a', password='{PASSWORD}')"),
    words(PASSWORD, "python3", "-c", f"import os; os.environ['TOKEN'] = '{PASSWORD}'"),
    words(PASSWORD, "psql", "-c", f"ALTER USER app PASSWORD '{PASSWORD}'"),
    words(PASSWORD, "mysql", "-e", f"CREATE USER a IDENTIFIED BY '{PASSWORD}'"),
    sh(PASSWORD, f"echo 'machine x.example login me password {PASSWORD}' > ~/.netrc"),
    words(PASSWORD, "sqlpackage", f"Server=db;Uid=sa;Pwd={PASSWORD};Encrypt=yes"),
    words(FAKE, "heroku", "config:set", f"PLAIN={FAKE}"),
    words(FAKE, "cargo", "login", FAKE),
    words(PASSWORD, "htpasswd", "-b", "users", "me", PASSWORD),
    words(PASSWORD, "wpa_passphrase", "ssid", PASSWORD),
    words(PASSWORD, "python3", "-c", f"requests.get('http://x', auth=('me', '{PASSWORD}'))"),
    words(PASSWORD, "python3", "-c", f"print('<db><password>{PASSWORD}</password></db>')"),
    sh(FAKE, f"echo {FAKE} | docker login -u me --password-stdin registry.example"),
    sh(FAKE, f"printf '%s' '{FAKE}' | gh auth login --with-token"),
    sh(PASSWORD, f"echo 'me:{PASSWORD}' | sudo chpasswd"),
    words(FAKE, "az", "x", f"AccountName=a;AccountKey={FAKE}==;EndpointSuffix=core"),
]

ORDINARY = [
    ["make", "-j8", "test"],
    ["mkdir", "-p", "a/b/c"],
    ["cp", "-p", "a", "b"],
    ["cp", "-pr", "source", "target"],
    ["ssh", "-p", "22", "alice@host"],
    ["ssh", "-p2222", "host", "uptime -p"],
    ["docker", "run", "-p", "80:80", "nginx"],
    ["docker", "run", "--name", "mysql", "-p3306:3306", "mysql:8"],
    ["docker", "run", "-it", "-e", "FOO=bar", "-v", "/a:/b", "img@sha256:" + "ab" * 32],
    ["docker", "build", "--secret", "id=npm,src=.npmrc", "."],
    ["docker", "login", "-u", "me", "--password-stdin", "registry.example"],
    ["docker", "compose", "-p", "project", "up", "-d"],
    ["git", "clone", "https://github.com/o/r.git"],
    ["git", "clone", "git@github.com:o/r.git"],
    ["git", "clone", "ssh://git@github.com/o/r.git"],
    ["git", "clone", "https://alice@bitbucket.org/o/r.git"],
    ["git", "commit", "-m", "auth: fix the login of the password form"],
    ["git", "commit", "-m", "token: don't read it twice"],
    ["git", "log", "--author=Alice <alice@example.org>", "-p", "--since=2.weeks"],
    ["git", "checkout", "9fceb02d0ae598e95dc970b74767f19372d61af8"],
    ["git", "push", "-u", "origin", "feature/reset-password"],
    ["npm", "install", "@scope/pkg@1.2.3", "--save-dev"],
    ["npx", "tsc", "-p", "tsconfig.json"],
    ["pip", "install", "-r", "requirements.txt", "--no-cache-dir"],
    ["pytest", "-k", "password or token", "tests/test_auth.py::test_login", "-p", "no:cacheprovider"],
    ["pytest", "tests/unit/test_tokens.py", "--maxfail=1"],
    ["grep", "-rn", "password", "src"],
    ["grep", "-i", "Authorization:", "access.log"],
    ["rg", "api_key\\s*=", "src", "-g", "*.py"],
    ["rg", "Authorization: Bearer", "src"],
    ["grep", "-c", "-----BEGIN CERTIFICATE-----", "/etc/ssl/certs/ca-certificates.crt"],
    ["sed", "-n", "/-----BEGIN CERTIFICATE-----/,/-----END CERTIFICATE-----/p", "chain.pem"],
    ["curl", "-fsSL", "https://example.org/install.sh"],
    ["curl", "-u", "alice", "https://example.org"],
    ["curl", "-x", "proxy.example.org:8080", "https://example.org"],
    ["curl", "-H", "Content-Type: application/json", "-d", '{"name": "x", "max_tokens": 4096}', "http://localhost:8080"],
    ["curl", "https://example.org/search?q=a&page=2&sort=key"],
    ["wget", "-q", "http://[::1]:8080/@scope/pkg"],
    ["psql", "-h", "db", "-p", "5432", "-U", "app", "-c", "select count(*) from tokens"],
    ["mysql", "-h", "db", "-P", "3306", "-u", "root", "-p", "app"],
    ["kubectl", "get", "secret", "my-secret", "-o", "yaml"],
    ["kubectl", "get", "pods", "-n", "auth", "-l", "app=token-server"],
    ["kubectl", "logs", "-f", "deploy/auth", "--tail=100", "-p"],
    ["aws", "secretsmanager", "get-secret-value", "--secret-id", "prod/db"],
    ["aws", "s3", "cp", "a", "s3://bucket/key", "--profile", "prod"],
    ["gcloud", "auth", "login", "--no-launch-browser"],
    ["gh", "auth", "login", "--with-token"],
    ["gh", "pr", "list", "--author", "@me"],
    ["ansible-playbook", "--ask-become-pass", "site.yml", "--private-key", "~/.ssh/id_ed25519"],
    ["ansible-playbook", "--vault-password-file", "/run/vault", "site.yml"],
    ["openssl", "req", "-newkey", "rsa:2048", "-passout", "file:/run/pw", "-keyout", "k.pem"],
    ["tar", "-xpf", "a.tar", "-C", "/tmp"],
    ["rsync", "-avzp", "a/", "host:/b/"],
    ["find", ".", "-name", "*.py", "-newer", "x", "-exec", "grep", "-l", "secret", "{}", "+"],
    ["env", "PWD=/work", "SSH_AUTH_SOCK=/run/a.sock", "GIT_AUTHOR_NAME=me", "TOKEN_FILE=/run/t", "make"],
    ["env", "AUTH_URL=https://login.example.org", "SECRET_NAME=prod", "MAX_TOKENS=100", "make"],
    ["sh", "-c", "cd /tmp && ls -la | sort -k5 -n > out.txt 2>&1"],
    ["sh", "-c", "export TOKEN=$OTHER_TOKEN; curl -H \"Authorization: Bearer $TOKEN\" https://example.org"],
    ["sh", "-c", "TOKEN=$(cat /run/token) PASSWORD=\"$(pass show db)\" ./run"],
    ["bash", "-lc", "for i in 1 2 3; do echo \"$i: it's fine\"; done"],
    ["bash", "-c", 'if [ -z "$API_KEY" ]; then echo "API_KEY is not set" >&2; exit 1; fi'],
    ["sh", "-c", "mysql -p\"$MYSQL_PASSWORD\" -e 'show tables'"],
    ["sh", "-c", "mkdir -p x && cp -p a x/ && ssh -p 22 h ls"],
    ["awk", "-F:", "{print $1}", "/etc/passwd"],
    ["python3", "-c", "print('hello: world'); tokenizer = x; token == None"],
    ["python3", "-m", "http.server", "8000"],
    ["node", "-e", "console.log(process.env.HOME)"],
    ["cargo", "test", "--", "--nocapture", "token_parser"],
    ["cargo", "build", "-p", "auth-server", "--release"],
    ["go", "test", "-run", "TestPassword/empty", "./..."],
    ["terraform", "plan", "-var-file=prod.tfvars", "-out=plan"],
    ["jq", "-r", ".token_type", "x.json"],
    ["keytool", "-list", "-keystore", "k.jks"],
    ["vault", "kv", "get", "secret/app"],
    ["gpg", "--export-secret-keys", "alice"],
    ["gcc", "-DAUTH=1", "-DSECRET_H", "a.c"],
    ["ffmpeg", "-i", "in.mp4", "-pass", "1", "-f", "null", "/dev/null"],
    ["aws", "s3api", "list-objects", "--starting-token", "abc"],
    ["sh", "-c", "echo \"$TOKEN\" | docker login -u me --password-stdin"],
    ["htpasswd", "-c", "users", "me"],
    ["echo", "naïve café — 日本語", ""],
    ["task_test_something_long", "disk-usage-of-a-long-name", "risk-assessment-module-x"],
]  # fmt: skip


def ids(cases: list[Case]) -> list[str]:
    return [f"{index}-{case.argv[0]}" for index, case in enumerate(cases)]


@pytest.mark.parametrize("case", SECRETS, ids=ids(SECRETS))
def test_no_secret_leaks(case: Case) -> None:
    secret, argv = case
    assert secret.replace(" ", "")[:8].rstrip("\\") in "".join(argv).replace(" ", "").replace("\\", "")
    line = redact(argv)
    assert REDACTED in line
    for start in range(max(1, len(secret) - 7)):
        assert secret[start : start + 8] not in line
    assert argv[0] in line, "the program's name stays"


@pytest.mark.parametrize("argv", ORDINARY, ids=[f"{i}-{argv[0]}" for i, argv in enumerate(ORDINARY)])
def test_ordinary_commands_are_unchanged(argv: list[str]) -> None:
    assert redact(argv) == shlex.join(argv)


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(SECRETS) >= 60
    assert len(ORDINARY) >= 60


def test_what_is_around_a_secret_stays() -> None:
    assert redact(["git", "clone", f"https://a:{PASSWORD}@h/r"]) == "git clone 'https://a:[REDACTED]@h/r'"
    assert redact(["mysql", "-u", "root", f"-p{PASSWORD}", "db"]) == "mysql -u root '-p[REDACTED]' db"
    line = redact(["sh", "-c", f"export DB_PASSWORD='{SPACED}'; curl -H 'X-Api-Key: {FAKE}' http://h | jq ."])
    script = "export DB_PASSWORD='[REDACTED]'; curl -H 'X-Api-Key: [REDACTED]' http://h | jq ."
    assert line == shlex.join(["sh", "-c", script])


def test_every_secret_within_a_shell_and_within_another() -> None:
    for secret, argv in SECRETS:
        for nested in (["sh", "-c", shlex.join(argv)], ["bash", "-c", "sh -c " + shlex.quote(shlex.join(argv))]):
            line = redact(nested)
            for start in range(max(1, len(secret) - 7)):
                assert secret[start : start + 8] not in line, nested


def test_one_line_whatever_it_holds() -> None:
    assert redact(["sh", "-c", "a\nb'c\\d\te"]) == r"sh -c $'a\nb\'c\\d\te'"
    assert redact(["echo", "\x1b[1m\u2028\x85"]) == r"echo $'\x1b[1m\u2028\u0085'"


def test_undecodable_bytes_become_replacement_characters() -> None:
    assert redact(["ls", "caf\udce9", "\ud800"]) == "ls 'caf\ufffd' '\ufffd\ufffd\ufffd'"
    assert redact(["ls", b"caf\xc3\xa9".decode("ascii", "surrogateescape")]) == "ls 'café'"


def json_bytes(text: str) -> int:
    import json

    return len(json.dumps(text)) - 2


@pytest.mark.parametrize("character", ["a", "\n", '"', "'", "\\", "é", "😀", "\x00", "\udcff", "\u2028"])
@pytest.mark.parametrize("limit", [0, 10, 100, 1000, MAX_BYTES])
def test_the_line_is_bounded(character: str, limit: int) -> None:
    for argv in ([character * 100_000], ["echo", *[character] * 50_000], ["echo", character * (limit or 1)] * 2):
        line = redact(argv, limit)
        assert json_bytes(line) <= max(limit, 3)
        assert line.endswith("...")


def test_it_is_cut_after_the_redaction() -> None:
    for length in range(3900, 4120):
        line = redact(["echo", "x" * length + f" --token {FAKE} {GITHUB} {JWT}"])
        for secret in (FAKE, GITHUB, JWT):
            assert not any(secret[start : start + 8] in line for start in range(len(secret) - 7))


def test_no_words_no_line() -> None:
    assert redact([]) == ""
    assert redact([""]) == "''"


PIECES = st.sampled_from(
    ["'", '"', "\\", "$'", "$(", ")", "`", ";", "\n", " ", "=", ":", "://", "@", "/", "?", "&", "-p", "--password",
     "token", "mysql ", "curl -u ", "eyJ", "ghp_", "sk-", "AKIA", "-----BEGIN X KEY-----", "-----END X KEY-----",
     "Authorization", "export ", "sh -c ", "é", "\udc80", "a", "Zz9", "<<EOF", "{", "}", ","]
)  # fmt: skip
TEXT = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=60))


@given(st.lists(TEXT, max_size=6), st.sampled_from([64, 500, MAX_BYTES]))
@settings(max_examples=400, deadline=None)
def test_anything_gives_one_bounded_line(argv: list[str], limit: int) -> None:
    line = redact(argv, limit)
    assert json_bytes(line) <= limit
    line.encode()
    assert len(line.splitlines()) <= 1


@given(TEXT, TEXT)
@settings(max_examples=400, deadline=None)
def test_a_token_goes_whatever_is_around_it(before: str, after: str) -> None:
    for argv in (["sh", "-c", f"{before} {GITHUB} {after}"], ["x", f"{before} {GITHUB} {after}"]):
        assert GITHUB not in redact(argv)
        assert GITHUB[8:20] not in redact(argv)


@given(TEXT)
@settings(max_examples=400, deadline=None)
def test_words_know_where_they_stood(text: str) -> None:
    for command in split(text):
        for word in command:
            if word.value:
                start, end = word.raw_span(0, len(word.value))
                assert 0 <= start < end <= len(text)
                if not word.quoted:
                    assert text[start:end] == word.value


UNITS = [
    "a", "eyJ", ":@", "'", '"', "\\", "$'", "`", " ", "\n", "=", "@", "://", "http://a:b", "://x:y/", "token=",
    "token='", 'token="', 'token=\\"', "token=$(", "auth=", "token:", "?key=", "&key=a", "-----BEGIN X-----",
    "-----BEGIN X-----a-----END ", "sk-", "sk-sk", "ghp_", "github_pat_", "AKIA", "xoxb-", "Authorization:",
    "Authorization: Bearer ", "x-", "a-", "cookie=", "login a password ", "password '", "bearer ", "mysql -p",
    "a='", "-p ", "--password ", "sh -c '", "sh -c ", "(", "<", "A1", "_", ".", "é", "bA", "Bearer a",
    "<a>", "<token>", "</", "auth=('", "echo a|",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_long_adversarial_text_comes_through(unit: str) -> None:
    """That it takes linear time is measured in benchmarks/; with a quadratic scan this would not end in time."""
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    assert len(redact(["sh", "-c", text])) <= 4096
