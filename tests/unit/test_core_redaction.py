"""Secrets go, ordinary commands come out as they were, and the time is linear.

The secrets are made up, and put together at run time: a scanner of this repository is not to find one.
"""

import shlex
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.core.redaction import MAX_BYTES, REDACTED, redact
from sidecar.core.redaction_words import split

# Long enough for every shape, obviously no secret, and no 8 characters of it are in any command around it.
FAKE = "F4keF4ke" + "Zq9Xw8Yv7" + "N0tReal5" + "Kj6Hg3Qz" + "Q1w2E3r4"
PASSWORD = "Hunter2" + "-n0t-R3al"
WORD = "correct" + "horse"  # nothing about it says that it is one
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
    # what a command reads: here-strings and pipes
    sh(WORD, f"mysql -p app <<< {WORD}"),
    sh(WORD, f"sudo -S apt update <<< '{WORD}'"),
    sh(WORD, f"sudo -kS id <<<\"{WORD}\""),
    sh(WORD, f"chpasswd <<< bob:{WORD}"),
    sh(WORD, f"passwd bob <<< $'{WORD}\\n{WORD}'"),
    sh(WORD, f"read -r TOKEN <<< {WORD}"),
    sh(WORD, f"docker login -u x --password-stdin <<< {WORD}"),
    sh(WORD, f"gh secret set DEPLOY <<< '{WORD}'"),
    sh(WORD, f"echo {WORD} | sudo -S apt update"),
    sh(WORD, f"ssh host \"echo {WORD} | sudo -S reboot\""),
    sh(WORD, f"echo -e '{WORD}\\n{WORD}' | passwd bob"),
    sh(WORD, f"printf '%s' {WORD} | kinit alice@EXAMPLE"),
    sh(WORD, f"echo {WORD} | docker secret create db -"),
    sh(WORD, f"echo -n {WORD} | gcloud secrets versions add x --data-file=-"),
    sh(WORD, f"echo {WORD} | vercel env add API production"),
    # logins of programs that nobody listed, and of some more that somebody did
    words(WORD, "some-tool", "-u", "alice", "-p", WORD, "host"),
    words(WORD, "curl", f"--user=alice:{WORD}", "https://h.example"),
    words(WORD, "mysqladmin", "-u", "root", "password", WORD),
    words(WORD, "redis-cli", "AUTH", WORD),
    words(WORD, "redis-cli", "config", "set", "requirepass", WORD),
    words(WORD, "rabbitmqctl", "change_password", "bob", WORD),
    words(WORD, "impdp", f"system/{WORD}@orcl", "full=y"),
    words(WORD, "rpcclient", "-U", f"alice%{WORD}", "host"),
    words(WORD, "smbclient", "//host/share", WORD, "-U", "alice"),
    words(WORD, "net", "use", "Z:", "\\\\host\\share", WORD, "/user:alice"),
    words(WORD, "net.exe", "use", "\\\\host\\share", "/user:alice", WORD),
    words(WORD, "net", "user", "alice", WORD, "/add"),
    sh(WORD, f"net use '\\\\host\\share' {WORD}"),
    sh(WORD, f"net use \\\\host\\share {WORD}"),
    words("492039", "npm", "publish", "--otp", "492039"),
    words("492039", "npm", "publish", "--otp=492039"),
    sh("492039", "cd x && npm publish --otp 492039"),
    words(WORD, "plink", "-pw", WORD, "host"),
    words(WORD, "zip", "-e", f"-P{WORD}", "a.zip", "x"),
    words(WORD, "openssl", "passwd", "-6", "-salt", "xy", WORD),
    words(WORD, "mkpasswd", "-m", "sha-512", WORD),
    words(WORD, "ldappasswd", "-x", "-s", WORD, "cn=a"),
    words(WORD, "etcdctl", "--user", f"root:{WORD}", "get", "x"),
    words(WORD, "mc", "alias", "set", "store", "https://s3.example", "me", WORD),
    words(WORD, "vault", "kv", "put", "secret/x", f"value={WORD}"),
    words(WORD, "az", "keyvault", "secret", "set", "--name", "x", "--value", WORD),
    words(WORD, "composer", "config", "http-basic.repo.example", "alice", WORD),
    words(WORD, "npm", "config", "set", f"_auth={WORD}"),
    words(WORD, "pulumi", "config", "set", "--secret", "db", WORD),
    words(WORD, "jq", "-n", "--arg", "token", WORD, "{t:$token}"),
    words(WORD, "crudini", "--set", "x.conf", "DEFAULT", "admin_token", WORD),
    words(WORD, "lftp", "-e", f"open -u alice,{WORD} host"),
    words(WORD, "xfreerdp", "/u:alice", f"/p:{WORD}", "/v:host"),
    words(WORD, "cvs", "-d", f":pserver:alice:{WORD}@h:/r", "login"),
    words(WORD, "tailscale", "up", f"--authkey={WORD}"),
    words(WORD, "curl", f"https://h.example/?pw={WORD}"),
    # texts
    words(WORD, "mysql", "-e", f"SET PASSWORD FOR 'a'@'h' = '{WORD}'"),
    words(WORD, "expect", "-c", f'spawn ssh h; expect "assword:"; send "{WORD}\\r"'),
    words(WORD, "rails", "runner", f'User.first.update(password: "{WORD}")'),
    words(WORD, "mongosh", "--eval", f'db.createUser({{user:"a",pwd:"{WORD}"}})'),
    sh(WORD, f"printf 'machine h\\nlogin x\\npassword {WORD}\\n' > ~/.netrc"),
    sh(WORD, f"TOKEN+={WORD}"),
    sh(WORD, f"tokens=({WORD} {WORD})"),
    sh(WORD, f"declare -A m=([token]={WORD})"),
    sh(WORD, f"SOPS_AGE_KEY={WORD} sops -d x"),
    sh(WORD, f"PASS\\\nWORD={WORD} ./run"),
    # nothing but how it looks
    words(FAKE, "some-tool", "activate", FAKE),
    words(FAKE, "some-tool", f"-k{FAKE}"),
    sh(FAKE, f"echo {FAKE} > token.txt"),
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
    ["net", "use", "Z:", "/delete"],
    ["net", "use", "\\\\host\\share", "*"],
    ["env", "OTP_VERSION=26.1", "./configure", "--with-otp", "26"],
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


# As somebody would type them.
TYPED = r"""
docker run -u 1000:1000 -p 8080:80 --user www-data nginx
docker run -u node -p 127.0.0.1:3000:3000 node:18 npm start
docker compose -f a.yml -p myproj up -d
sudo -u postgres psql -p 5433 -c 'select 1'
sudo -u www-data php artisan migrate --path database/migrations
journalctl -u nginx -p err -n 50
systemd-run -u job -p MemoryMax=1G ./x
top -u alice -p 1234
strace -u alice -p 4711
ps -u root -p 12
lsof -u alice -p 4711
rsync -u -p a b
cp -u -p a b
tar -xzpf a.tgz -C /tmp
patch -p1 -u < a.diff
git diff -u -p HEAD~1
git log --format='%H %an' --author=alice@example.com
git config user.email alice@example.com
git config --global init.defaultBranch main
git config user.signingkey 3AA5C34371567BD2
git commit -m 'fix: password: "quoted" value handling'
git commit -m 'docs(auth): token -> session'
git push -u origin fix/reset-password
git checkout -b feature/oauth-token-refresh
git show 9fceb02d0ae598e95dc970b74767f19372d61af8:src/token.py
npm config set registry https://registry.npmjs.org/
npm config set legacy-peer-deps true
npm install alias@npm:pkg@1.0.0
npm run build -- --mode production
npm login --registry=https://r.example
yarn add -D @types/node@20.1.1
bundle config set --local path vendor/bundle
bundle config set --local deployment true
composer config --global process-timeout 2000
poetry config virtualenvs.in-project true
poetry add requests@^2.31
pip install 'requests>=2.0' --index-url https://pypi.org/simple
pip install git+https://github.com/o/r.git@v1.2.3
cargo login --help
cargo add serde --features derive
kubectl get secrets -A
kubectl create secret generic x --from-file=ssh-privatekey=/k
kubectl describe secret db-credentials
kubectl config set-context --current --namespace=auth
kubectl config use-context prod
kubectl exec -it pod-7d9f8b6c5d-x2x9z -- bash
kubectl set image deploy/x x=img:1.2.3
kubectl -n kube-system get sa token-controller
aws s3 ls s3://bucket/path/
aws sts get-caller-identity
aws configure set region eu-west-1
aws configure set output json
aws secretsmanager list-secrets
aws ssm get-parameter --name /a/b --with-decryption
az account set --subscription 11111111-2222-3333-4444-555555555555
az group create --name x --location westeurope
gcloud config set project my-project-123
gcloud projects add-iam-policy-binding p --member=user:alice@example.com --role=roles/x
gcloud secrets list
vault status
vault kv get secret/db
vault login -method=oidc
helm upgrade --install x ./c --set image.tag=1.2.3,replicas=2
helm repo add bitnami https://charts.bitnami.com/bitnami
terraform apply -var region=eu -auto-approve
terraform import aws_instance.x i-0123456789abcdef0
openssl x509 -in c.pem -noout -text
openssl s_client -connect h:443 -servername h
openssl rand -hex 32
openssl enc -d -aes-256-cbc -in a -out b -pass file:/k
ssh -i ~/.ssh/id_rsa -p 2222 alice@h 'uptime'
ssh -o StrictHostKeyChecking=no h "cd /x && make test"
scp -P 22 a h:b
ssh-keygen -t ed25519 -C alice@example.com -f ~/.ssh/k
ssh-keygen -R h
curl -X POST -H 'Content-Type: application/json' -d '{"name":"a","age":3}' http://localhost:8080/api
curl -sS -o /dev/null -w '%{http_code}' https://h/
curl -b cookies.txt -c cookies.txt https://h
curl -I https://h/path?page=2
curl -u $USER:$PASS https://h
curl -H "Authorization: Bearer ${TOKEN}" https://h
http GET https://h/api Accept:application/json
http --session=alice GET h
wget -qO- https://h/x.tar.gz
mysql -u root -p app < dump.sql
mysql -u root -e 'show databases'
psql -U app -h db -d app -c '\dt'
psql postgres://localhost/app
redis-cli -h h -p 6379 ping
redis-cli set key value
mongosh --port 27017 mydb --eval 'db.stats()'
sqlite3 a.db '.tables'
pytest tests/test_auth.py::TestLogin::test_password_reset -k 'not slow'
pytest -p no:randomly -x -q tests/unit
python -m pytest -o log_cli=true
python -c 'import secrets; print(secrets.token_hex(16))'
python manage.py changepassword alice
python manage.py createsuperuser --username alice
node -e 'console.log(require("./package.json").version)'
go test ./... -run 'TestToken|TestPassword' -count=1
go build -ldflags '-X main.version=1.2.3 -s -w' ./cmd/x
go test -run TestIPv4ToIPv6AddressMappingRFC4291WithTrailingZeros ./net
mvn -q -DskipTests -Dtest=UserPasswordServiceTest#shouldResetPassword test
gradle test --tests com.example.auth.TokenServiceTest
./gradlew :app:assembleDebug -PversionName=1.2.3
bazel test //auth:token_test --test_output=errors
make -C build test ARGS='-V -R auth_token'
cmake -DCMAKE_BUILD_TYPE=Release -DENABLE_AUTH=ON ..
ctest -R token -V
ninja -C out/Default -j8
tsc -p tsconfig.json --noEmit
eslint --fix src/auth/token.ts
jest src/password.test.ts -t 'resets the password'
vitest run -t 'token refresh'
rg -n 'password\s*=' src
grep -rn 'api_key' --include='*.py' .
grep -n 'Authorization:' -r src
sed -i 's/password/passphrase/g' README.md
awk '{print $1}' /etc/passwd
cat ~/.ssh/id_rsa.pub
find . -name '*.pem' -o -name 'token*'
ls -la /run/secrets
head -c 32 /dev/urandom | base64
echo 'hello: world' | tee out.txt
echo "token refreshed"
echo done | sudo tee /etc/x
echo y | apt-get install foo
printf '%s\n' a b c | sort
cat a.txt | sudo tee b
yes | sudo apt install x
jq -r '.access_token | length' x.json
jq --arg name alice '.[] | select(.name==$name)' x.json
yq '.services.db.environment' docker-compose.yml
read -r line <<< "hello world"
grep x <<< "some text here"
wc -l <<< "$output"
bash -c 'while read -r f; do echo "$f"; done <<< "$files"'
arr=(a b c)
tokens=$(cut -d: -f1 f)
declare -A m=([name]=alice [age]=3)
export PATH=$PATH:/usr/local/bin
export NODE_ENV=production DEBUG=app:*
PYTHONPATH=src python -m x
ffmpeg -i a.mp4 -c:v libx264 -preset fast b.mp4
convert a.png -resize 50% b.png
ansible all -m ping -u deploy
ansible-playbook -i hosts site.yml -u deploy --become
rclone copy a remote:b
restic -r /x snapshots
gpg --verify a.sig a
gpg --recv-keys 3AA5C34371567BD2
apt-key adv --keyserver k --recv-keys 4EB27DB2A3B88B8B
shasum -a 256 x
sha256sum -c sums.txt
docker pull img@sha256:abababababababababababababababababababababababababababababababab
docker inspect 3f4e5d6c7b8a
docker build -t registry.example/app-server:1.2.3-rc1 --target test .
docker exec -it db psql -U app
docker logs -f --tail 100 app
docker secret ls
docker network create mynet
podman run -it --rm -p 8080:8080 -u 0 img
crictl ps -a
nmap -sV -p 1-1000 h
nc -u -p 53 h 1234
tcpdump -i eth0 -n port 53
ab -n 100 -c 10 http://localhost/
hey -n 1000 http://localhost/
etcdctl get /x --prefix
net start x
security find-identity -v -p codesigning
xcodebuild -scheme App -destination 'platform=iOS Simulator,name=iPhone 15' test
swift test --filter AuthTokenTests
adb shell am start -n com.example/.Main
flutter test test/token_test.dart
rails generate model Token value:string user:references
rails db:migrate
bin/rails test test/models/password_reset_test.rb
mix test test/token_test.exs:42
php artisan make:migration create_tokens_table
phpunit --filter testPasswordReset
dotnet test --filter FullyQualifiedName~TokenTests
dotnet nuget push x.nupkg --source https://h
gh pr create --title 'Fix token refresh' --body 'Closes #12'
gh secret list
gh api repos/o/r/actions/secrets
glab mr list
wrangler secret list
fly secrets list
heroku config
vercel env ls
ngrok http 8080
twine upload dist/*
snmpget -v2c h 1.3.6.1
install -m 755 -o root -u x
useradd -m -s /bin/bash bob
passwd -l bob
htpasswd -c users me
crontab -u alice -l
chown -R alice:alice /x
setfacl -m u:alice:rwx f
mount -t nfs h:/x /mnt
mount -o loop,ro a.iso /mnt
kill -TERM 4711
timeout 60 make test
nice -n 10 make -j4
env -u FOO bar
watch -n 1 'ps aux | grep node'
eval "$(ssh-agent -s)"
source .venv/bin/activate && pytest -q
set -euo pipefail; make test
if [ -n "$TOKEN" ]; then echo set; fi
for t in a b; do curl -s "https://h/$t"; done
"""


@pytest.mark.parametrize("line", TYPED.strip().splitlines())
def test_ordinary_lines_are_unchanged(line: str) -> None:
    assert redact(["bash", "-c", line]) == shlex.join(["bash", "-c", line])
    if not set(line) & set("|;<$"):
        argv = shlex.split(line)
        assert redact(argv) == shlex.join(argv)


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


@example(["", "htpasswd"], 64)
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
    "<a>", "<token>", "</", "auth=('", "echo a|", "aB3", "aB3=", "<<< ", "<<<a ", "sudo -S <<< ", "(a", "tokens=(",
    "set password a=", 'assword "send', "assword send 'a", "-u a -p ", "--arg a ", "[token]=", "token+=", "login a\\n",
    ":pserver:a:", "password: 'x'", '"Authorization:"', "echo a|passwd ", "http-basic. ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_long_adversarial_text_comes_through(unit: str) -> None:
    """That it takes linear time is measured in benchmarks/, which has the same units."""
    text = (unit * (20_000 // len(unit) + 1))[:20_000]
    assert len(redact(["sh", "-c", text])) <= 4096
