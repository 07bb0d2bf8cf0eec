-- Rows of the registry that docs/upstream.md maps, and a key that was created elsewhere.
INSERT INTO catalog.author VALUES (1, 'ana');
INSERT INTO catalog.item VALUES
    ('10000000-0000-4000-8000-000000000001', 'Find', 'tools.find', 3, 1, 1.5, -2, 9, 2, NULL),
    ('10000000-0000-4000-8000-000000000002', NULL, 'tools.find', 1, NULL, NULL, NULL, NULL, 1, NULL),
    ('10000000-0000-4000-8000-000000000003', 'Draft', 'tools.find', 1, 1, 1, 1, 1, NULL, NULL),
    ('10000000-0000-4000-8000-000000000004', 'Deleted', 'tools.find', 1, 1, 1, 1, 1, 1, now()),
    ('10000000-0000-4000-8000-000000000005', 'Broken', 'tools.find', 9, 1, 1, 1, 1, 1, NULL);
INSERT INTO catalog.item_version VALUES
    ('10000000-0000-4000-8000-000000000001', 1, 'old', '{}', NULL),
    ('10000000-0000-4000-8000-000000000001', 2, 'new',
        '{"in": {"type": "object"}, "out": {"type": "null"}}', '1.2.3');
INSERT INTO catalog.match VALUES
    ('10000000-0000-4000-8000-000000000001', 1.5, '2026-01-31 12:00', 7),
    ('10000000-0000-4000-8000-000000000001', NULL, '2026-02-01 12:00', 7);
INSERT INTO catalog.token VALUES
    (encode(sha256('tok-4f1d7c0a9b3e5d6f'), 'hex'), 'team', 'ci', true, 100000, now(), NULL);
