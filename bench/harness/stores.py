"""Postgres and Redis of a run: on the load's core, empty at first, removed afterwards."""

import binascii
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .process import free_port, program

LOAD_CORE, SERVER_CORE = 0, 1

CONFIGURATION = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = '512MB'
max_connections = 400
fsync = off
dynamic_shared_memory_type = mmap
max_wal_size = '4GB'
logging_collector = off
"""

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def api_key(name, number):
    """A key in the service's format (see src/keys/token.rs), the same in every run."""
    secret = hashlib.sha256(f"{name} {number}".encode()).hexdigest()[:32]
    body = f"gr_{name}{number:0{8 - len(name)}d}_{secret}"
    check, rest = "", binascii.crc32(body.encode())
    for _ in range(6):
        check, rest = DIGITS[rest % 62] + check, rest // 62
    return body + check


class Redis:
    def __init__(self, fleet, folder):
        self.port = free_port()
        argv = [program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1",
                "--save", "", "--appendonly", "no", "--dir", str(folder)]
        self.process = fleet.start(argv, LOAD_CORE, folder / "redis.log", port=self.port)
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self, *words):
        argv = [program("redis-cli"), "-p", str(self.port), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


class Postgres:
    def __init__(self, fleet, folder, gene_registry, settings=()):
        self.port, self.gene_registry = free_port(), gene_registry
        self.data = folder / "postgres"
        self.data.mkdir()
        user = "postgres" if os.getuid() == 0 else None
        if user:
            shutil.chown(self.data, user)
        options = {"user": user} if user else {}
        subprocess.run([program("initdb"), "-D", self.data, "-U", "postgres", "-A", "trust"],
                       check=True, stdout=subprocess.DEVNULL, **options)
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(CONFIGURATION + "".join(f"{line}\n" for line in settings))
        argv = [program("postgres"), "-D", str(self.data), "-p", str(self.port)]
        self.process = fleet.start(argv, LOAD_CORE, folder / "postgres.log", user=user,
                                   port=self.port)

    def url(self, database):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def sql(self, database, text):
        argv = [program("psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", self.url(database)]
        return subprocess.run(argv, input=text, check=True, capture_output=True,
                              text=True).stdout.strip()

    def registry(self, database, genes):
        """Creates a database with this number of generated genes."""
        self.sql("postgres", f"CREATE DATABASE {database}")
        env = {**os.environ, "DATABASE_URL": self.url(database)}
        for command in (["migrate"], ["seed", "--genes", str(genes)]):
            subprocess.run([self.gene_registry, *command], check=True, env=env,
                           capture_output=True)

    def add_keys(self, database, keys):
        """Inserts keys with their limits into the default schema."""
        rows = "\n".join(
            f"\\\\x{hashlib.sha256(key.encode()).hexdigest()}\t{key[:11]}\tbench\tbench\t{limit}"
            for key, limit in keys)
        self.sql(database, "INSERT INTO registry.owner (handle) VALUES ('bench')"
                 " ON CONFLICT DO NOTHING;\n"
                 "COPY registry.api_key (key_hash, prefix, owner, name, rate_limit_per_minute)"
                 f" FROM stdin;\n{rows}\n\\.\n")


def logged_statements(postgres, database, action, folder):
    """The statements that the service sends during `action`, from Postgres' log."""
    log = Path(folder / "postgres.log")
    postgres.sql("postgres", f"ALTER DATABASE {database} SET log_statement = 'all'")
    begin = log.stat().st_size
    action()
    text = log.read_bytes()[begin:].decode()
    postgres.sql("postgres", f"ALTER DATABASE {database} RESET log_statement")
    found = []
    for part in text.split("execute ")[1:]:
        body = part.partition(": ")[2].split("\nDETAIL:")[0]
        # Indented lines continue the statement; other lines are further log entries.
        lines = body.split("\n")
        kept = [lines[0]]
        for line in lines[1:]:
            if line[:1] not in ("\t", " "):
                break
            kept.append(line)
        found.append("\n".join(kept))
    return [text.split("DETAIL:")[0].rstrip() for text in found]
