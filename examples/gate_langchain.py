"""The conflict gate in a LangChain retrieval chain: retrieve, ask the gate, answer only if it says so.

    pip install otel-drift langchain-core
    python examples/gate_langchain.py --model openai/gpt-5-mini "How many vacation days may I carry over?"

The gate sits between the retriever and the prompt. If it abstains, its message goes to the user and no answer is
generated; if it lets a smaller disagreement pass, its notes go into the prompt as they are: they are delimited.
"""

from __future__ import annotations

import argparse
from typing import Any

import litellm
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from otel_drift import ConflictGate
from otel_drift.judges.litellm import LiteLLMJudge

DOCUMENTS = [
    Document(
        id="handbook-12",
        page_content="Up to 10 unused vacation days may be carried over and must be taken by 30 June.",
        metadata={"title": "Handbook", "date": "2026-01-01"},
    ),
    Document(
        id="faq-3",
        page_content="A maximum of 5 unused vacation days can be carried over; they expire on 31 March.",
        metadata={"title": "Intranet FAQ", "date": "2026-01-15"},
    ),
    Document(
        id="handbook-7",
        page_content="Sick leave of more than three days needs a doctor's certificate.",
        metadata={"title": "Handbook", "date": "2026-01-01"},
    ),
]

PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from the passages only, and name the passage you rest on.\n\n{notes}"),
        ("human", "Passages:\n{context}\n\nQuestion: {question}"),
    ]
)


class WordRetriever(BaseRetriever):
    """Finds documents that share two long words with the question: stands for your vector store."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        wanted = {word for word in query.lower().strip("?").split() if len(word) > 3}
        return [one for one in DOCUMENTS if len(wanted & set(one.page_content.lower().split())) >= 2]


def passages_of(documents: list[Document]) -> list[dict[str, Any]]:
    """LangChain documents as the gate takes them; what the metadata know of author, date and type helps it."""
    known = ("title", "source", "author", "date", "document_type")
    return [
        {
            "id": document.id or f"document-{number}",
            "text": document.page_content,
            **{name: str(document.metadata[name]) for name in known if document.metadata.get(name)},
        }
        for number, document in enumerate(documents, 1)
    ]


def build_chain(gate: ConflictGate, model: str, api_base: str | None) -> Runnable[str, str]:
    """Question in; an answer or the gate's message out."""

    def decide(state: dict[str, Any]) -> Runnable[Any, str] | str:
        decision = gate.check(state["question"], passages_of(state["documents"]))
        if not decision.proceed:
            return decision.user_message
        context = "\n".join(f"[{document.id}] {document.page_content}" for document in state["documents"])
        told = {"question": state["question"], "context": context, "notes": decision.notes_for_answer}
        return RunnableLambda(lambda _: told) | PROMPT | RunnableLambda(answer) | StrOutputParser()

    def answer(prompt: Any) -> str:
        roles = {"system": "system", "human": "user", "ai": "assistant"}
        messages: list[BaseMessage] = prompt.to_messages()
        reply = litellm.completion(
            model=model,
            api_base=api_base,
            messages=[{"role": roles[one.type], "content": str(one.content)} for one in messages],
        )
        return str(reply.choices[0].message.content)

    return {"question": RunnablePassthrough(), "documents": WordRetriever()} | RunnableLambda(decide)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--model", default="openai/gpt-5-mini")
    parser.add_argument("--api-base")
    asked = parser.parse_args()
    judge = LiteLLMJudge(asked.model, api_base=asked.api_base)
    with ConflictGate(judge, preset="support", pair_threshold=1) as gate:
        chain = build_chain(gate, asked.model, asked.api_base)
        for question in asked.questions:
            print(chain.invoke(question))


if __name__ == "__main__":
    main()
