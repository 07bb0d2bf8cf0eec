-- Values that an existing registry may have: every optional value empty, integers at and beyond 2^53,
-- long and astral-plane text, times in an unusual time zone.
ALTER VIEW registry_read.gene RENAME TO own_gene;
ALTER VIEW registry_read.arena_evaluation RENAME TO own_arena_evaluation;
CREATE TABLE registry.foreign_gene AS SELECT * FROM registry_read.own_gene LIMIT 0;
CREATE TABLE registry.foreign_evaluation AS SELECT * FROM registry_read.own_arena_evaluation LIMIT 0;
CREATE VIEW registry_read.gene AS
    SELECT * FROM registry_read.own_gene UNION ALL SELECT * FROM registry.foreign_gene;
CREATE VIEW registry_read.arena_evaluation AS
    SELECT * FROM registry_read.own_arena_evaluation
    UNION ALL SELECT * FROM registry.foreign_evaluation;
GRANT SELECT ON registry_read.gene, registry_read.arena_evaluation TO gene_registry_reader;

INSERT INTO registry.foreign_gene (id, domain, fidelity)
    VALUES ('00000000-0000-0000-0000-000000000000', 'foreign.empty', 'Wrapped');
INSERT INTO registry.foreign_gene (id, name, domain, fidelity, description, owner, fitness_score,
        reputation_score, downloads, arena_rank, phenotype)
    VALUES ('ffffffff-ffff-ffff-ffff-fffffffffffe', U&'\+01F9EC "\\" \2028 %', 'foreign.large',
        'Native', repeat(U&'\+01D4B3', 20000), U&'\00E9', 1.5, -0.25, 9223372036854775807,
        9007199254740991, '{"input": {"type": ["object", "null"], "x": [1e308]}, "output": true}');
SET timezone = 'Asia/Kathmandu';
INSERT INTO registry.foreign_evaluation (gene_id, fitness_value, evaluated_at, total_calls)
    VALUES ('ffffffff-ffff-ffff-ffff-fffffffffffe', 1.5, '2026-01-01 00:30:00.75', 9007199254740993);
