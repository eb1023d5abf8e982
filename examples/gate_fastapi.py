"""The conflict gate in a FastAPI service: one route that retrieves, asks the gate, and answers only if it says so.

    pip install otel-drift fastapi uvicorn
    MODEL=openai/gpt-5-mini uvicorn --app-dir examples gate_fastapi:app

`acheck` is awaited and never takes longer than the gate's deadline, so a judge that hangs holds up no other request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import litellm
from fastapi import FastAPI, Request
from pydantic import BaseModel

from otel_drift import ConflictGate
from otel_drift.judges.litellm import LiteLLMJudge

PASSAGES = [
    {
        "id": "handbook-12",
        "text": "Up to 10 unused vacation days may be carried over and must be taken by 30 June.",
        "title": "Handbook",
        "date": "2026-01-01",
    },
    {
        "id": "faq-3",
        "text": "A maximum of 5 unused vacation days can be carried over; they expire on 31 March.",
        "title": "Intranet FAQ",
        "date": "2026-01-15",
    },
    {
        "id": "handbook-7",
        "text": "Sick leave of more than three days needs a doctor's certificate.",
        "title": "Handbook",
        "date": "2026-01-01",
    },
]


class Question(BaseModel):
    """What is asked."""

    question: str


class Reply(BaseModel):
    """An answer, or why there is none."""

    answered: bool
    text: str
    decision_id: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One gate for the whole service; closed, so that the last decisions are kept, when it stops."""
    judge = LiteLLMJudge(os.environ["MODEL"], api_base=os.environ.get("API_BASE"))
    with ConflictGate(judge, preset="support", pair_threshold=1, deadline=10) as gate:
        app.state.gate = gate
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/ask")
async def ask(question: Question, request: Request) -> Reply:
    """Retrieve, decide, answer."""
    passages = retrieve(question.question)
    decision = await request.app.state.gate.acheck(question.question, passages)
    if not decision.proceed:
        return Reply(answered=False, text=decision.user_message, decision_id=decision.decision_id)
    text = await asyncio.to_thread(answer, question.question, passages, decision.notes_for_answer)
    return Reply(answered=True, text=text, decision_id=decision.decision_id)


def retrieve(question: str) -> list[dict[str, str]]:
    """Passages that share two long words with the question: stands for your search."""
    wanted = {word for word in question.lower().strip("?").split() if len(word) > 3}
    return [one for one in PASSAGES if len(wanted & set(one["text"].lower().split())) >= 2]


def answer(question: str, passages: list[dict[str, str]], notes: str) -> str:
    """Ask the model; the gate's notes are delimited and go into the prompt as they are."""
    context = "\n".join(f"[{one['id']}] {one['text']}" for one in passages)
    reply = litellm.completion(
        model=os.environ["MODEL"],
        api_base=os.environ.get("API_BASE"),
        messages=[
            {"role": "system", "content": f"Answer from the passages only, and name the passage.\n\n{notes}"},
            {"role": "user", "content": f"Passages:\n{context}\n\nQuestion: {question}"},
        ],
    )
    return str(reply.choices[0].message.content)
