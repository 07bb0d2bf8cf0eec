-- The default registry. An existing registry does not need any of this: it maps the views of
-- schema registry_read onto its own tables.

CREATE SCHEMA IF NOT EXISTS registry;
CREATE SCHEMA registry_read;

CREATE TABLE registry.owner (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle text NOT NULL UNIQUE CHECK (handle <> '')
);

-- One new best gene moves the rank of every gene below it. Half of each page is left free for
-- that: then ranks change in place, without touching any of the indexes (nine times as fast).
CREATE TABLE registry.gene (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL DEFAULT '',
    domain text COLLATE "C" NOT NULL
        CHECK (char_length(domain) BETWEEN 1 AND 255 AND domain !~ '[\u0001-\u001f\u007f-\u009f]'),
    fidelity text COLLATE "C" NOT NULL CHECK (fidelity IN ('Wrapped', 'Hybrid', 'Native')),
    description text NOT NULL DEFAULT '',
    owner_id bigint NOT NULL REFERENCES registry.owner,
    fitness_score float8 NOT NULL DEFAULT 0
        CHECK (fitness_score >= 0 AND fitness_score < 'Infinity'),
    reputation_score float8 NOT NULL DEFAULT 0
        CHECK (reputation_score > '-Infinity' AND reputation_score < 'Infinity'),
    downloads bigint NOT NULL DEFAULT 0 CHECK (downloads >= 0),
    arena_rank bigint NOT NULL DEFAULT 0 CHECK (arena_rank >= 0),
    phenotype jsonb NOT NULL DEFAULT '{}',
    install_command text NOT NULL DEFAULT '',
    min_playground_version text NOT NULL DEFAULT '',
    required_fidelity text CHECK (required_fidelity IN ('Wrapped', 'Hybrid', 'Native')),
    published boolean NOT NULL DEFAULT true
) WITH (fillfactor = 50);

CREATE TABLE registry.arena_evaluation (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gene_id uuid NOT NULL REFERENCES registry.gene
        ON UPDATE CASCADE ON DELETE CASCADE,
    fitness_value float8 NOT NULL CHECK (fitness_value >= 0 AND fitness_value < 'Infinity'),
    evaluated_at timestamptz NOT NULL DEFAULT now() CHECK (isfinite(evaluated_at)),
    total_calls bigint NOT NULL DEFAULT 0 CHECK (total_calls >= 0)
);

CREATE TABLE registry.api_key (
    key_hash bytea PRIMARY KEY CHECK (octet_length(key_hash) = 32),
    prefix text NOT NULL UNIQUE CHECK (prefix <> ''),
    owner text NOT NULL REFERENCES registry.owner (handle) ON UPDATE CASCADE,
    name text NOT NULL,
    scopes text[] NOT NULL DEFAULT '{read}',
    rate_limit_per_minute integer NOT NULL DEFAULT 30 CHECK (rate_limit_per_minute >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE INDEX api_key_owner ON registry.api_key (owner);

CREATE TABLE registry.api_key_usage (
    key_hash bytea PRIMARY KEY REFERENCES registry.api_key ON UPDATE CASCADE ON DELETE CASCADE,
    last_used_at timestamptz,
    request_count bigint NOT NULL DEFAULT 0 CHECK (request_count >= 0)
);

-- Append-only: which catalogue facts changed, in which transaction.
CREATE TABLE registry.change (
    scope text NOT NULL,
    changed_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    changed_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX change_changed_in ON registry.change (changed_in);
CREATE INDEX change_changed_at ON registry.change (changed_at);

-- Domains whose ranks are out of date. Append-only with duplicates: a unique domain would make
-- writers of one domain wait for each other. Only maintain reads and deletes.
CREATE TABLE registry.rank_due (
    domain text COLLATE "C" NOT NULL
);

CREATE INDEX rank_due_domain ON registry.rank_due (domain);
