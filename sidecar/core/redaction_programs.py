"""What is known of well-known programs: which of their options and verbs are followed by a secret."""

from collections.abc import Mapping
from typing import NamedTuple

from sidecar.core.redaction_names import listed


class Program(NamedTuple):
    """Letters of the options whose value is a secret: glued to it (-pX), apart (-p X); `user` ones hold user:password.

    `after` is a word that must stand before (`docker login -p X`). `literal` are options that are no single letter
    (-pw X). `verbs` are words, and the how manieth argument behind one is the secret (`change_password USER X`: 2).
    `logon`: an argument may be user/password@database, as Oracle has it.
    """

    glued: str = ""
    apart: str = ""
    user: str = ""
    after: str = ""
    literal: frozenset[str] = frozenset()
    verbs: Mapping[str, int] = {}
    logon: bool = False


PLAIN = Program()
_MYSQL = Program(glued="p")
_MONGO = Program(glued="p", apart="p")
_LOGIN = Program(apart="p", after="login")
_LDAP = Program(glued="w", apart="w")
_PUTTY = Program(literal=frozenset({"-pw"}))
_WINDOWS = Program(user="U")
_ORACLE = Program(logon=True)

PROGRAMS: Mapping[str, Program] = {
    **dict.fromkeys(
        listed(
            "mysql mysqldump mysqlimport mysqlshow mysqlcheck mysqlbinlog mysqlslap mysqlpump mysqlsh mycli "
            "mariadb mariadb-dump mariadb-import mariadb-check mariadb-show mariadb-backup xtrabackup"
        ),
        _MYSQL,
    ),
    **dict.fromkeys(listed("mysqladmin mariadb-admin"), Program(glued="p", verbs={"password": 1})),
    **dict.fromkeys(listed("mongo mongosh mongodump mongorestore mongoexport mongoimport cqlsh conan"), _MONGO),
    **dict.fromkeys(listed("docker podman nerdctl buildah skopeo helm crane oras az oc regctl"), _LOGIN),
    **dict.fromkeys(listed("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare"), _LDAP),
    "ldappasswd": Program(glued="w", apart="was"),
    **dict.fromkeys(listed("7z 7za 7zz 7zr rar unrar"), Program(glued="p")),
    **dict.fromkeys(listed("zip unzip sqlcmd bcp"), Program(glued="P", apart="P")),
    **dict.fromkeys(listed("tsql mosquitto_pub mosquitto_sub ipmitool p4"), Program(apart="P")),
    **dict.fromkeys(listed("plink pscp psftp putty"), _PUTTY),
    **dict.fromkeys(listed("smbclient smbget rpcclient winexe net net.exe"), _WINDOWS),
    **dict.fromkeys(listed("sqlplus impdp expdp rman sqlldr exp imp"), _ORACLE),
    "sshpass": Program(glued="p", apart="p"),
    "curl": Program(user="uUx"),
    "http": Program(user="a"),
    "https": Program(user="a"),
    "xh": Program(user="a"),
    "hey": Program(user="a"),
    "ab": Program(user="AP"),
    "etcdctl": Program(user="-"),
    "ctr": Program(user="u"),
    "transmission-remote": Program(user="n"),
    "redis-cli": Program(apart="a", verbs={"auth": 1, "AUTH": 1, "requirepass": 1, "masterauth": 1}),
    "rabbitmqadmin": Program(apart="p"),
    "rabbitmqctl": Program(verbs={"add_user": 2, "change_password": 2}),
    "rdesktop": Program(apart="p"),
    "twine": Program(apart="p"),
    "ssh-keygen": Program(apart="NP"),
    "snmpwalk": Program(apart="AXc"),
    "snmpget": Program(apart="AXc"),
    "useradd": Program(apart="p"),
    "usermod": Program(apart="p"),
    "security": Program(apart="p", after="unlock-keychain"),
    "swaks": Program(literal=frozenset({"-ap"})),
    "sendemail": Program(literal=frozenset({"-xp"})),
    "doctl": Program(apart="t"),
    "codecov": Program(apart="t"),
    "mkpasswd": Program(verbs={"mkpasswd": 1}),
    "caddy": Program(literal=frozenset({"--plaintext"})),
    "wandb": Program(verbs={"login": 1}),
    "vault": Program(verbs={"login": 1}),
    "cargo": Program(verbs={"login": 1}),
    "snyk": Program(verbs={"auth": 1}),
    "cf": Program(verbs={"auth": 2}),
    "bw": Program(verbs={"unlock": 1, "login": 2}),
    "mc": Program(verbs={"set": 4}),
    "ngrok": Program(verbs={"authtoken": 1, "add-authtoken": 1}),
    "rclone": Program(verbs={"obscure": 1}),
    "nuget": Program(verbs={"setapikey": 1}),
    "dotnet": Program(apart="kp", after="nuget"),
    "drush": Program(verbs={"upwd": 2, "user:password": 2, "user-password": 2}),
    "grafana-cli": Program(verbs={"reset-admin-password": 1}),
    "isql": Program(verbs={"isql": 3}),
    "openssl": PLAIN,
    "lftp": PLAIN,
    "htpasswd": PLAIN,
    "wpa_passphrase": PLAIN,
    "nmcli": PLAIN,
    # Their options of the same letters are none of the above's, nor is `-u x -p y` a login.
    **dict.fromkeys(
        listed(
            "ssh scp sftp rsync git mkdir cp tar make npm pip python python3 node kubectl gh psql journalctl systemctl "
            "systemd-run ps top htop lsof strace nc ncat ss netstat tcpdump install unshare nsenter diff patch"
        ),
        PLAIN,
    ),
}
