"""The conflict gate in a LlamaIndex query engine: retrieve, ask the gate, synthesise only if it says so.

    pip install otel-drift llama-index-core
    python examples/gate_llamaindex.py --model openai/gpt-5-mini "How many vacation days may I carry over?"

If the gate abstains, its message is the response and no answer is generated; if it lets a smaller disagreement pass,
its notes go into the prompt as they are: they are delimited.
"""

from __future__ import annotations

import argparse
from typing import Any

import litellm
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import ConfigDict

from otel_drift import ConflictGate
from otel_drift.judges.litellm import LiteLLMJudge

NODES = [
    TextNode(
        id_="handbook-12",
        text="Up to 10 unused vacation days may be carried over and must be taken by 30 June.",
        metadata={"title": "Handbook", "date": "2026-01-01"},
    ),
    TextNode(
        id_="faq-3",
        text="A maximum of 5 unused vacation days can be carried over; they expire on 31 March.",
        metadata={"title": "Intranet FAQ", "date": "2026-01-15"},
    ),
    TextNode(
        id_="handbook-7",
        text="Sick leave of more than three days needs a doctor's certificate.",
        metadata={"title": "Handbook", "date": "2026-01-01"},
    ),
]


class WordRetriever(BaseRetriever):
    """Finds nodes that share two long words with the question: stands for your index."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        wanted = {word for word in query_bundle.query_str.lower().strip("?").split() if len(word) > 3}
        shared = [(node, len(wanted & set(node.text.lower().split()))) for node in NODES]
        return [NodeWithScore(node=node, score=float(count)) for node, count in shared if count >= 2]


class GatedQueryEngine(CustomQueryEngine):
    """Answers only what the gate lets through."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    retriever: BaseRetriever
    gate: ConflictGate
    model: str
    api_base: str | None = None

    def custom_query(self, query_str: str) -> str:
        """An answer, or the gate's message."""
        nodes = self.retriever.retrieve(query_str)
        decision = self.gate.check(query_str, [passage_of(node) for node in nodes])
        if not decision.proceed:
            return decision.user_message
        context = "\n".join(f"[{node.node_id}] {node.get_content()}" for node in nodes)
        system = "Answer from the passages only, and name the passage you rest on."
        reply = litellm.completion(
            model=self.model,
            api_base=self.api_base,
            messages=[
                {"role": "system", "content": f"{system}\n\n{decision.notes_for_answer}"},
                {"role": "user", "content": f"Passages:\n{context}\n\nQuestion: {query_str}"},
            ],
        )
        return str(reply.choices[0].message.content)


def passage_of(node: NodeWithScore) -> dict[str, Any]:
    """A LlamaIndex node as the gate takes it; what the metadata know of author, date and type helps it."""
    known = ("title", "source", "author", "date", "document_type")
    about = {name: str(node.metadata[name]) for name in known if node.metadata.get(name)}
    return {"id": node.node_id, "text": node.get_content(), **about}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--model", default="openai/gpt-5-mini")
    parser.add_argument("--api-base")
    asked = parser.parse_args()
    judge = LiteLLMJudge(asked.model, api_base=asked.api_base)
    with ConflictGate(judge, preset="support", pair_threshold=1) as gate:
        engine = GatedQueryEngine(retriever=WordRetriever(), gate=gate, model=asked.model, api_base=asked.api_base)
        for question in asked.questions:
            print(engine.query(question))


if __name__ == "__main__":
    main()
