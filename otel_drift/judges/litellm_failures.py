"""What went wrong with a call through litellm: one of our errors, without a word of the request in it.

Texts of providers may repeat the prompt or the key, and litellm's own exception classes follow words in such texts.
So the HTTP status and the exception types down the chain decide, and only short machine-readable codes are passed on.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from otel_drift import retry
from otel_drift.errors import JudgeError, PermanentJudgeError, RetryableJudgeError

_SENTENCES: Mapping[str, str] = {
    "rate_limited": "rate limit reached",
    "overloaded": "the server is overloaded or failing",
    "transport": "the connection failed",
    "timeout": "no complete answer in time",
    "auth": "the key was refused; check it, and that it may use this model",
    "quota_exhausted": "the account's quota or credit is used up",
    "unknown_model": "no such model or no such URL; check the model's name and api_base",
    "context_window": "the request is longer than the model allows; set input_window to the model's true limit",
    "content_filter": "blocked by the provider's content filter",
    "bad_request": "the request was refused",
    "bad_response": "what came back is no chat completion; check api_base",
}
_RETRYABLE = frozenset({"rate_limited", "overloaded", "transport", "timeout"})
_BY_STATUS: Mapping[int, str] = {
    401: "auth",
    402: "quota_exhausted",
    403: "auth",
    404: "unknown_model",
    408: "timeout",
    413: "context_window",
    429: "rate_limited",
    501: "bad_response",
    505: "bad_response",
}
_BY_CLASS: Mapping[str, str] = {
    # litellm's classes, for providers whose answer leaves no HTTP error in the chain.
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "NotFoundError": "unknown_model",
    "UnsupportedParamsError": "bad_request",
    "RateLimitError": "rate_limited",
    "ServiceUnavailableError": "overloaded",
    "Timeout": "timeout",
}
_CODE = re.compile(r"[a-z][a-z0-9_.]{2,39}")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "response_format": ("response_format", "json_schema", "json schema", "json_object", "structured output", "grammar"),
    "temperature": ("temperature",),
    "seed": ("seed",),
    "max_tokens": ("max_completion_tokens",),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request: `reason` as in `JudgeError`, `status` where HTTP gave one, `code` the provider's own."""

    reason: str
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None
    rejected: tuple[str, ...] = ()
    """The optional parameters that the provider may be saying it does not take, likeliest first."""

    def error(self, who: str) -> JudgeError:
        """The error to raise; `who` names the model and where it is."""
        details = [f"HTTP {self.status}"] if self.status else []
        details += [f"code {self.code}"] if self.code else []
        message = f"{who}: {_SENTENCES[self.reason]}" + (f" ({', '.join(details)})" if details else "")
        if self.reason in _RETRYABLE:
            return RetryableJudgeError(message, reason=self.reason, retry_after=self.retry_after)
        return PermanentJudgeError(message, reason=self.reason)


TIMED_OUT = Failure("timeout")
BAD_RESPONSE = Failure("bad_response")


def failure_of(error: BaseException) -> Failure:
    """Classify what litellm raised."""
    chain = list(_chain(error))
    status, headers = _http_error(chain)
    if status is None:
        if any(isinstance(e, TimeoutError) or _is_httpx(e, "TimeoutException") for e in chain):
            return TIMED_OUT
        if any(isinstance(e, ssl.SSLCertVerificationError) for e in chain):
            return Failure("bad_request", code="certificate_verify_failed")
        if any(isinstance(e, ConnectionError) or _is_httpx(e, "TransportError") for e in chain):
            return Failure("transport")
        return _without_http_error(chain)
    code = _code(chain)
    reason = _reason(status, chain, code)
    return Failure(
        reason,
        status=status,
        code=code,
        retry_after=_retry_after(headers) if reason in _RETRYABLE else None,
        rejected=_rejected(chain) if reason == "bad_request" else (),
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """From litellm's exception down to the first cause."""
    for _ in range(20):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _http_error(chain: list[BaseException]) -> tuple[int | None, Mapping[str, str]]:
    """The status and headers that came over the wire; litellm's exceptions carry made-up ones."""
    for error in reversed(chain):
        response = getattr(error, "response", None)
        if response is not None and _is_httpx(error, "HTTPStatusError"):
            return response.status_code, response.headers
    return None, {}


def _is_httpx(error: BaseException, name: str) -> bool:
    """Whether `error` is of httpx's class `name`: SDKs bring httpx or its successor httpx2."""
    return any(
        c.__name__ == name and c.__module__.partition(".")[0] in ("httpx", "httpx2") for c in type(error).__mro__
    )


def _reason(status: int, chain: list[BaseException], code: str | None) -> str:
    if status == 429 and code and ("quota" in code or "billing" in code):
        return "quota_exhausted"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return "overloaded"
    if status < 400:
        return "bad_response"
    names = {type(error).__name__ for error in chain}
    if "ContextWindowExceededError" in names or code == "context_length_exceeded":
        return "context_window"
    if "ContentPolicyViolationError" in names or (code and "content" in code and "filter" in code):
        return "content_filter"
    return "bad_request"


def _without_http_error(chain: list[BaseException]) -> Failure:
    """No HTTP error: the body of a 200 was no completion, or it carried an error object (OpenRouter does that)."""
    for error in reversed(chain):
        status = getattr(error, "status_code", None)
        if type(error) is Exception and status is not None:
            if str(status).isdigit() and int(status) in (408, 429, *range(500, 600)):
                return Failure(_reason(int(status), chain, None), code=f"error_{status}_in_body")
            return Failure("rate_limited" if "rate_limit" in str(status) else "bad_response", code="error_in_body")
    for error in chain:
        if type(error).__name__ in _BY_CLASS:
            return Failure(_BY_CLASS[type(error).__name__])
    return BAD_RESPONSE


def _code(chain: list[BaseException]) -> str | None:
    for error in chain:
        body = getattr(error, "body", None)
        nested = body.get("error") if isinstance(body, dict) else None
        for source in (nested, body):
            for key in ("code", "type"):
                value = source.get(key) if isinstance(source, dict) else None
                if isinstance(value, str) and _CODE.fullmatch(value):
                    return value
    return None


def _rejected(chain: list[BaseException]) -> tuple[str, ...]:
    for error in chain:
        body = getattr(error, "body", None)
        parameter = str(body.get("param") or "") if isinstance(body, dict) else ""
        for option in _OPTIONS:
            if parameter == option or parameter.startswith(f"{option}."):
                return (option,)
    text = str(chain[0]).casefold()
    return tuple(option for option, words in _OPTIONS.items() if any(word in text for word in words))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = retry.parse_retry_after(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return retry.parse_retry_after(headers.get("retry-after"))


def readable_code(value: Any) -> str | None:
    """Return `value` if it is a short machine-readable code, such as a finish reason; else None."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None
