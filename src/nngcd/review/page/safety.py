"""Who may talk to the page: the browser of the person who started it, and nobody else.

A web page anywhere can make a browser send requests to 127.0.0.1. The token keeps other programs and pages out, the
list of hosts stops a foreign name that is made to point here (DNS rebinding), the origin stops foreign forms.
"""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""Of what may be sent in one request."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPEN_THE_LINK = "Open the link that `nngcd review` printed in the terminal."


@dataclass(frozen=True, slots=True)
class Door:
    """Address and secret token that a request must match.

    Args:
        host: the address the server listens on.
        port: its port.
        token: what the printed link holds; 256 random bits.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie(self) -> str:
        """The name of the cookie. A browser sends cookies to all ports of a host, so the port is in the name."""
        return f"nngcd_review_{self.port}"

    @property
    def link(self) -> str:
        """The address to open."""
        host = "127.0.0.1" if _is_any_address(self.host) else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?t={self.token}"

    def allows_host(self, host: str) -> bool:
        """Return whether a `Host` header names this server."""
        name, _, port = host.rpartition(":")
        name = name.strip("[]").lower()
        if port != str(self.port):
            return False
        # Reached from elsewhere by its number: a number cannot be made to point to another machine.
        return name in {"127.0.0.1", "localhost", "::1", self.host.lower()} or (
            _is_any_address(self.host) and _is_address(name)
        )

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in a time that does not depend on how much of it is right."""
        return secrets.compare_digest(given.encode(), self.token.encode())


class Guard:
    """Middleware that refuses what `Door` does not let in, and gives every answer the headers of a closed page."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if refused := self._refusal(scope):
            await refused(scope, receive, send_closed)
        else:
            await self.app(scope, _bounded(receive), send_closed)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.door.allows_host(host):
            return _refused(403, f"This address is not allowed. {OPEN_THE_LINK}")
        if not self._has_token(scope, headers):
            return _refused(403, OPEN_THE_LINK)
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get("origin", "").lower() != f"http://{host.lower()}":
            return _refused(403, f"The request came from another page. {OPEN_THE_LINK}")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refused(415, "Only JSON is accepted.")
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return _refused(411, "The request does not say how long it is (Content-Length).")
        if int(length) > MOST_BYTES:
            return _refused(413, "The request is over 1 MB. Select fewer images.")
        return None

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        if scope["path"] == "/" and self.door.is_token(QueryParams(scope["query_string"]).get("t", "")):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return self.door.cookie in cookies and self.door.is_token(cookies[self.door.cookie].value)


def _bounded(receive: Receive) -> Receive:
    """Return `receive`, ending a request that sends more than it announced it would."""
    n_bytes = 0

    async def receive_bounded() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if n_bytes > MOST_BYTES else message

    return receive_bounded


def _refused(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status)


def _is_any_address(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
