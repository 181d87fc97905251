"""A small OpenID provider for tests: one page that asks a name, then a token signed with RS256.

Run as a program with its port.
"""

from __future__ import annotations

import html
import json
import secrets
import sys
import time
from urllib.parse import parse_qs

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

PORT = int(sys.argv[1])
ISSUER = f"http://localhost:{PORT}"
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})

app = FastAPI()
asked: dict[str, tuple[str, dict]] = {}  # code → name and what the dashboard asked


@app.get("/.well-known/openid-configuration")
def configuration() -> dict:
    return {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "jwks_uri": f"{ISSUER}/jwks",
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "email", "profile"],
    }


@app.get("/jwks")
def jwks() -> dict:
    return {"keys": [KEY.as_dict(private=False)]}


@app.get("/authorize")
def authorize(request: Request) -> HTMLResponse:
    told = html.escape(json.dumps(dict(request.query_params)))
    return HTMLResponse(
        f'<form method="post" action="/enter"><input name="name" aria-label="Name">'
        f'<input type="hidden" name="asked" value="{told}"><button>Sign in</button></form>'
    )


@app.post("/enter")
async def enter(request: Request) -> RedirectResponse:
    form = parse_qs((await request.body()).decode())
    query, code = json.loads(form["asked"][0]), secrets.token_urlsafe(8)
    asked[code] = form["name"][0], query
    return RedirectResponse(f"{query['redirect_uri']}?code={code}&state={query['state']}", 303)


@app.post("/token")
async def token(request: Request) -> dict:
    form = parse_qs((await request.body()).decode())
    name, query = asked.pop(form["code"][0])
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": name, "aud": query["client_id"], "iat": now, "exp": now + 3600}
    claims |= {"name": name, "nonce": query.get("nonce", "")}
    signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, KEY)
    return {"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "id_token": signed}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
