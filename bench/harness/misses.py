"""The throughput of the database alone: pgbench with the service's own statements, over as many
connections as the pool has, against the same database from the same core."""

import re
import statistics

from . import load
from .http import get
from .stores import SERVER_CORE, logged_statements

POOL = 16
TEXTS = 50


def phenotype_statements(setting, postgres, database, folder):
    """The statement of a phenotype, for up to `TEXTS` genes."""
    target = f"/v1/genes/{setting.genes[-1]}/phenotype"
    setting.clear_phenotypes()
    found = logged_statements(postgres, database,
                              lambda: cause_miss(setting, target), folder)
    text = [text for text in found if "LEFT JOIN LATERAL" in text and "phenotype" in text][0]
    return [re.sub(r"\$1", f"'{gene}'::uuid", text) for gene in setting.genes[:TEXTS]]


def cause_miss(setting, target):
    # The log setting applies to new connections only, so a new replica is started.
    replica = setting.replica("statements", LOG__LEVEL="warn")
    assert get(replica.port, target, setting.key)[0] == 200
    replica.process.stop()


def database_alone(setting, postgres, database, folder, rounds, seconds):
    statements = phenotype_statements(setting, postgres, database, folder)
    result = {}
    for mode, name in (("prepared", "prepared"), ("extended", "unnamed")):
        runs = [load.pgbench(postgres, database, statements, folder, mode, POOL, seconds,
                             SERVER_CORE) for _ in range(rounds)]
        result[name] = statistics.median(runs)
        print(f"  pgbench, {name}: {result[name]:.0f} a second")
    return result
