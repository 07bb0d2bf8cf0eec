-- Views, and the indexes that answer what the service asks of them.
--
-- The service sorts by the values it shows and leaves out what breaks the contract, so its
-- expressions are the indexes' expressions and predicates, word for word (see queries.rs). Each
-- index includes the column under its expression, without which no scan of it is index-only.

-- The owner by a subquery, which costs nothing where nobody asks for it: even a join that the
-- planner removes would keep scans from being index-only (before Postgres 17).
CREATE VIEW registry_read.gene AS
SELECT g.id, g.name, g.domain, g.fidelity, g.description,
    (SELECT o.handle FROM registry.owner o WHERE o.id = g.owner_id) AS owner, g.fitness_score,
    g.reputation_score, g.downloads, g.arena_rank, g.phenotype, g.install_command,
    g.min_playground_version, g.required_fidelity
FROM registry.gene g
WHERE g.published;

CREATE VIEW registry_read.arena_evaluation AS
SELECT gene_id, fitness_value, evaluated_at, total_calls FROM registry.arena_evaluation;

CREATE VIEW registry_read.api_key AS
SELECT key_hash, prefix, owner, name, scopes, rate_limit_per_minute, created_at, expires_at,
    revoked_at
FROM registry.api_key;

CREATE VIEW registry_read.change AS
SELECT scope, changed_in, changed_at FROM registry.change;

CREATE INDEX gene_fitness ON registry.gene
    ((coalesce(fitness_score, 0)) DESC, id)
    INCLUDE (fitness_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_reputation ON registry.gene
    ((coalesce(reputation_score, 0)) DESC, id)
    INCLUDE (reputation_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_downloads ON registry.gene
    ((least(greatest(coalesce(downloads, 0), 0), 9007199254740991)) DESC, id)
    INCLUDE (downloads)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;

CREATE INDEX gene_domain_fitness ON registry.gene
    (domain, (coalesce(fitness_score, 0)) DESC, id)
    INCLUDE (fitness_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_domain_reputation ON registry.gene
    (domain, (coalesce(reputation_score, 0)) DESC, id)
    INCLUDE (reputation_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_domain_downloads ON registry.gene
    (domain, (least(greatest(coalesce(downloads, 0), 0), 9007199254740991)) DESC, id)
    INCLUDE (downloads)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;

CREATE INDEX gene_fidelity_fitness ON registry.gene
    (fidelity, (coalesce(fitness_score, 0)) DESC, id)
    INCLUDE (fitness_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_fidelity_reputation ON registry.gene
    (fidelity, (coalesce(reputation_score, 0)) DESC, id)
    INCLUDE (reputation_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_fidelity_downloads ON registry.gene
    (fidelity, (least(greatest(coalesce(downloads, 0), 0), 9007199254740991)) DESC, id)
    INCLUDE (downloads)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;

CREATE INDEX gene_domain_fidelity_fitness ON registry.gene
    (domain, fidelity, (coalesce(fitness_score, 0)) DESC, id)
    INCLUDE (fitness_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_domain_fidelity_reputation ON registry.gene
    (domain, fidelity, (coalesce(reputation_score, 0)) DESC, id)
    INCLUDE (reputation_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;
CREATE INDEX gene_domain_fidelity_downloads ON registry.gene
    (domain, fidelity, (least(greatest(coalesce(downloads, 0), 0), 9007199254740991)) DESC, id)
    INCLUDE (downloads)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;

-- The arena of a domain: its genes by id, so that looking up their evaluations walks through
-- arena_evaluation_newest from one end to the other.
CREATE INDEX gene_domain_id ON registry.gene
    (domain, id)
    INCLUDE (fitness_score)
    WHERE published AND fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE;

-- Normally empty: makes counting the rows that break the contract free.
CREATE INDEX gene_broken ON registry.gene (domain)
    WHERE published AND (fidelity IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score < 0 OR fitness_score >= 'Infinity' OR reputation_score <= '-Infinity'
        OR reputation_score >= 'Infinity') IS NOT TRUE) IS NOT TRUE;

CREATE INDEX gene_owner ON registry.gene (owner_id);

-- A gene's newest evaluations, and a domain's, without a look at the table. The predicate is the
-- service's own condition: what an index implies is not checked again for every row.
CREATE INDEX arena_evaluation_newest ON registry.arena_evaluation
    (gene_id, evaluated_at DESC, fitness_value DESC) INCLUDE (total_calls)
    WHERE fitness_value >= 0 AND fitness_value < 'Infinity'
    AND evaluated_at >= '0001-01-01 00:00:00+00' AND evaluated_at < '9999-12-30 00:00:00+00';
