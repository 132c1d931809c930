"""The marketplace and a model's page with their versions, files, and what is still on its way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.catalog import services
from apps.catalog.domain.moving import Moving
from apps.catalog.models import Blob, ModelVersion, StageChange, StoredFile, Transfer
from apps.catalog.moves import restate
from apps.jobs.models import Job
from tests.catalog import made
from tests.factories import World

PAGES: dict[str, tuple[str, str]] = {
    "models": ("data-scientist", "/models/"),
    "models-filtered": ("team-admin", "/models/?stage=approved&q=港口"),
    "models-none-fits": ("data-scientist", "/models/?q=nothing-like-it"),
    "models-empty": ("nobody", "/models/"),
    "model": ("team-admin", "/models/{model}/"),
    "model-versions": ("data-scientist", "/models/{model}/?tab=versions"),
    "model-files": ("viewer", "/models/{model}/?version=2&tab=files"),
    "model-history": ("auditor", "/models/{model}/?version=2&tab=history"),
    "model-coming": ("data-scientist", "/models/{coming}/"),
    "model-failed": ("data-scientist", "/models/{gone}/"),
    "model-pickle": ("data-scientist", "/models/{pickled}/"),
    "model-edit": ("data-scientist", "/models/{model}/edit"),
    "model-delete": ("data-scientist", "/models/{model}/delete"),
    "job-register": ("data-scientist", "/jobs/{running}/register"),
}

CARD = """# 港口助手

Answers in the language of the question and cites what it has read. **Fine-tuned** on reviewed dialogues of the service
desk; see the [evaluation](https://example.com/evaluation).

## Known limits

- weak at arithmetic with more than three figures
- long tables are cut at 4,096 tokens

| Suite | Score |
|---|---|
| C-Eval | 52.1 |
| MMLU | 47.9 |

> Do not use it for contract texts.

```
charlm --temperature 0.7
```
"""

FACTS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("qwen2.5-7b-sft", "Apache-2.0", {"format": "safetensors", "parameters": 7_615_616_512, "weight_bytes": 15_231_233_024,
      "dtypes": {"BF16": 7_615_616_512}, "context": 131_072, "architecture": "Qwen2ForCausalLM"}, ["chat", "中文"]),
    ("llama-70b-chat", "Llama 3.1", {"format": "safetensors", "parameters": 70_553_706_496,
      "weight_bytes": 141_107_412_992, "dtypes": {"BF16": 70_553_706_496}, "context": 8192}, ["chat"]),
    ("bge-m3-对照", "MIT", {"format": "safetensors", "parameters": 567_754_752, "weight_bytes": 1_135_509_504}, ["embedding"]),
    ("glm-4-9b-q4", "Internal", {"format": "gguf", "parameters": 9_399_951_360, "weight_bytes": 5_455_000_000,
      "quantisation": "Q4_K", "context": 131_072}, []),
    ("deepseek-v3", "MIT", {"format": "safetensors", "parameters": 671_026_419_200, "weight_bytes": 688_586_727_753}, ["推理"]),
]  # fmt: skip


def _version(owner: User, place: Any, name: str, facts: dict[str, Any], **said: Any) -> ModelVersion:
    version = services.register(owner.actor(), made.registration(place, name=name, **said))
    values = {"bytes": facts.get("weight_bytes", 0)} | {"tensors": 291, "unopened": [], "faults": []} | facts
    ModelVersion.objects.filter(pk=version.pk).update(files="ready", facts=values, bytes=values["bytes"])
    Transfer.objects.filter(version=version).update(phase=Moving.DONE)
    return version


def _stage(version: ModelVersion, *steps: tuple[User, str, str]) -> None:
    old = "draft"
    for by, new, comment in steps:
        StageChange.objects.create(version=version, old=old, new=new, by=by, comment=comment)
        old = new
    ModelVersion.objects.filter(pk=version.pk).update(stage=old)
    restate(version.model_id)


@transaction.atomic
def seed(world: World, me: User) -> dict[str, Any]:
    admin = world.people[Role.TEAM_ADMIN]
    stranger = User.objects.filter(sub="stranger").first() or world.stranger()
    for number, (name, licence, facts, tags) in enumerate(FACTS):
        place, owner = (world.place, me) if number % 2 == 0 else (world.other_place, stranger)
        version = _version(owner, place, name, facts, licence=licence, tags=tags, visibility="public")
        _stage(version, (owner, "candidate", ""), (admin, "approved", "good on our test set"))
    charlm = {"format": "charlm", "parameters": 27_243, "weight_bytes": 217_944, "dtypes": {"F64": 27_243}, "context": 12,
              "architecture": "charlm", "step": 1500}  # fmt: skip
    first = _version(
        me, world.place, "港口助手 harbour", charlm, card=CARD, tags=["charlm", "demo"], note="first light"
    )
    _stage(first, (me, "candidate", ""), (admin, "approved", "fit for the demo"))
    second = _version(me, world.place, "", charlm, model_id=first.model_id, note="twice the steps")
    _stage(second, (me, "candidate", "loss is lower by a tenth"))
    for path, size in (("manifest.json", 1_204), ("shard-0-of-2.npy", 217_944), ("shard-1-of-2.npy", 217_944)):
        digest = f"{abs(hash(path)):064x}"[-64:]
        Blob.objects.get_or_create(pk=digest, defaults={"size": size})
        StoredFile.objects.create(version=second, path=path, digest=digest, size=size)
    lineage = second.lineage | {"checkpoint": {"name": "step-00001500", "step": 1500, "saved_at": ""}}
    ModelVersion.objects.filter(model=first.model).update(lineage=lineage)
    found = {"model": first.model_id, **_on_the_way(world, me)}
    job = Job.objects.for_system().filter(owner=me, name="first light").latest("pk")
    for version in ModelVersion.objects.for_system().filter(tenant=world.nlp):
        version.lineage["job"] |= {"id": job.pk}  # one that can be looked at
        version.save(update_fields=["lineage"])
    return found


def _on_the_way(world: World, me: User) -> dict[str, Any]:
    coming = services.register(me.actor(), made.registration(world.place, name="mistral-7b-dpo"))
    Transfer.objects.filter(version=coming).update(
        phase=Moving.CARRYING, total=14_500_000_000, received=6_100_000_000, started_at=timezone.now() - timedelta(seconds=70),
        due_at=None,
    )  # fmt: skip
    gone = services.register(me.actor(), made.registration(world.place, name="asr-zh"))
    ModelVersion.objects.filter(pk=gone.pk).update(files="failed")
    torn = "step-00000900: shard-1-of-4.npy is not what was written"
    Transfer.objects.filter(version=gone).update(
        phase=Moving.FAILED, reason="checkpoint-torn", reason_params={"text": torn}, due_at=None
    )
    faulty = [{"path": "model-00002.safetensors", "code": "overlap"}]
    pickled = _version(
        me,
        world.place,
        "legacy-ranker",
        {"format": "pickle", "bytes": 431_000_000, "unopened": ["pytorch_model.bin"], "faults": faulty},
    )
    restate(pickled.model_id)
    return {"coming": coming.model_id, "gone": gone.model_id, "pickled": pickled.model_id}
