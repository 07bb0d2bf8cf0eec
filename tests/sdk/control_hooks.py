"""What the control document says in words only, for schemathesis: makes generated bodies that its schemas
allow into ones that the service accepts. Bodies that its schemas refuse are sent as they are."""

from typing import Any

import schemathesis

LATER = "2999-01-01T00:00:00Z"
CHANGES = ("name", "rate_limit_per_minute", "expires_at", "never_expires")

# Format characters and others that are invisible, which names must not have.
INVISIBLE = [
    (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F), (0x890, 0x891),
    (0x8E2, 0x8E2), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
]


def visible(text: str) -> str:
    kept = "".join(one for one in text if not any(first <= ord(one) <= last for first, last in INVISIBLE))
    return kept if not text or kept.strip() else "a"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    body, path = case.body, case.operation.path
    if not isinstance(body, dict):
        return
    if isinstance(body.get("name"), str):
        body["name"] = visible(body["name"])
    if isinstance(body.get("expires_at"), str) and body["expires_at"][:4].isdigit():
        body["expires_at"] = LATER
    if path == "/api-keys" and body.get("block") in (None, False):
        body["block"] = True
    if path == "/api-keys/update" and all(body.get(name) is None for name in CHANGES):
        body["never_expires"] = True
    if isinstance(body.get("expires_at"), str) and body.get("never_expires") is True:
        del body["never_expires"]
