"""What tests of many pairs at once have learnt, as the JSON that worker 0 sends to the others."""

from typing import Any

from treefold.discovery import Group, Model, Round
from treefold.probe.results import Measurements, Outcome
from treefold.rendezvous import validation

_GROUP: validation.Schema = {
    "members": [[validation.is_count]],
    "capacity_Bps": validation.is_amount,
    "name": str,
    "support": validation.is_count,
    "confirmed": bool,
}
_RATES: validation.Schema = [(validation.is_count, validation.is_count, validation.is_amount)]
_ROUND: validation.Schema = {
    "tests": validation.is_count,
    "promised_Bps": validation.is_amount,
    "carried_Bps": validation.is_amount,
    "learnt": [_GROUP],
    "dropped": [str],
}
_MODEL: validation.Schema = {
    "alone_Bps": _RATES,
    "carried_Bps": _RATES,
    "latency_s": _RATES,
    "groups": [_GROUP],
    "is_whole": bool,
}
_OUTCOME: validation.Schema = {
    "rate_Bps": validation.is_amount,
    "carried": bool,
    "proven": bool,
    "ended_by": str | None,
}
SCHEMA: validation.Schema = {"models": [_MODEL], "rounds": [_ROUND], "outcomes": [_OUTCOME]}


def to_json(measured: Measurements) -> dict[str, Any]:
    """Return the model of measurements, their rounds and their outcome as JSON; there may be no model."""
    rounds = [each.__dict__ | {"learnt": [*map(_group, each.learnt)]} for each in measured.rounds]
    models = [] if measured.model is None else [_model(measured.model)]
    outcomes = [] if measured.outcome is None else [dict(measured.outcome.__dict__)]
    return {"models": models, "rounds": rounds, "outcomes": outcomes}


def _model(model: Model) -> dict[str, Any]:
    rates = {"alone_Bps": model.alone_Bps, "carried_Bps": model.carried_Bps, "latency_s": model.latency_s}
    listed = {key: [[*pair, value] for pair, value in by_pair.items()] for key, by_pair in rates.items()}
    return {**listed, "groups": [*map(_group, model.groups)], "is_whole": model.is_whole}


def take(measured: Measurements, learnt: dict[str, Any]) -> None:
    """Put the JSON of a model, its rounds and its outcome into measurements."""
    names = [worker["name"] for worker in measured.workers]
    for found in learnt["models"]:
        rates = {
            key: {(source, target): value for source, target, value in found[key]}
            for key in ("alone_Bps", "carried_Bps", "latency_s")
        }
        groups = [*map(_group_of, found["groups"])]
        measured.model = Model(names=names, groups=groups, is_whole=found["is_whole"], **rates)
    for outcome in learnt["outcomes"]:
        measured.outcome = Outcome(**outcome)
    measured.rounds = [
        Round(**each | {"learnt": tuple(map(_group_of, each["learnt"])), "dropped": tuple(each["dropped"])})
        for each in learnt["rounds"]
    ]


def _group(group: Group) -> dict[str, Any]:
    return group.__dict__ | {"members": sorted(map(list, group.members))}


def _group_of(listed: dict[str, Any]) -> Group:
    return Group(**listed | {"members": frozenset((source, target) for source, target in listed["members"])})
