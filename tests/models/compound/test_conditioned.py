from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.compound.blend import Blend, BlendOptions
from costhub.models.compound.conditioned import BASES, Conditioned, ConditionedOptions
from costhub.models.compound.device_vector import LAYOUTS
from costhub.models.compound.residual import Residual
from costhub.models.evaluate import evaluate, evaluate_scores
from costhub.models.folder import load_model, save_model
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model
from costhub.models.trees.gbt import Gbt, GbtOptions

SPEC = "per_store@1"
COLUMNS = find_spec(SPEC).columns
CORES = {"one": 1, "four": 4, "eight": 8, "sixteen": 16, "sixtyfour": 64}
DEVICES: dict[str, dict[str, Any]] = {
    name: {"device_id": name, "kind": "cpu", "cores": cores} for name, cores in CORES.items()
}
UNSEEN = "eight"

MEMBERS = "gbt(rounds=60,learning_rate=0.2,depth=5) mlp(hidden=32,epochs=30,learning_rate=5e-3)"
BASE: dict[str, Callable[[], CostModel]] = {
    "gbt": lambda: Gbt(feature_spec=SPEC, options=GbtOptions(rounds=60, learning_rate=0.2, depth=5)),
    "mlp": lambda: Mlp(feature_spec=SPEC, options=MlpOptions(hidden=32, epochs=30, learning_rate=5e-3)),
    "blend": lambda: Blend(feature_spec=SPEC, options=BlendOptions(members=MEMBERS)),
}


def measured(device_id: str, *, workloads: int = 3, each: int = 60, seed: int = 0) -> Programs:
    """Programs that are the faster the nearer their parallel extent is to the number of cores."""
    rng = np.random.default_rng([seed, CORES[device_id]])
    n = workloads * each
    rows = np.zeros((n, len(COLUMNS)), np.float32)
    parallel = rng.uniform(0.0, 7.0, size=n)
    rows[:, COLUMNS.index("parallel_prod")] = parallel
    workload = np.repeat(np.arange(workloads), each)
    latency_s = 1e-3 * np.exp(np.abs(parallel - np.log2(CORES[device_id])) + rng.normal(size=workloads)[workload])
    ids = tuple(f"{seed}-{number}" for number in range(workloads))
    return Programs(rows, np.ones(n, np.int64), workload, ids, latency_s, SPEC, device_ids=(device_id,))


@pytest.fixture(scope="module")
def train() -> Programs:
    return Programs.join([measured(name) for name in DEVICES if name != UNSEEN])


@pytest.fixture(scope="module")
def model(train: Programs) -> Conditioned:
    """Fitted on all devices but one; tests must not change it."""
    return fitted("gbt", train)


def fitted(base: str, train: Programs, *, relations: bool = True, layout: str = "device@1") -> Conditioned:
    options = ConditionedOptions(relations=relations, device_layout=layout)
    made = Conditioned(feature_spec=SPEC, options=options, devices=DEVICES, base=BASE[base]())
    made.fit(train, None, seed=0, progress=False)
    return made


@pytest.mark.parametrize("base", BASES)
def test_it_ranks_for_a_device_it_has_never_seen_better_than_a_model_that_knows_no_devices(
    base: str, train: Programs
) -> None:
    unseen = measured(UNSEEN, seed=1)
    blind = BASE[base]()
    blind.fit(train, None, seed=0, progress=False)

    found = evaluate(fitted(base, train).bind(DEVICES[UNSEEN]), unseen).pairwise

    assert found > 0.85
    assert found > evaluate(blind, unseen).pairwise + 0.1


def test_the_same_program_ranks_otherwise_on_another_device(model: Conditioned) -> None:
    programs = measured("one", workloads=1, seed=1)
    few, many = (model.bind(DEVICES[name]).predict(programs.rows, programs.counts) for name in ("one", "sixtyfour"))

    assert evaluate_scores(few, programs).pairwise > 0.85
    assert evaluate_scores(many, programs).pairwise < 0.3


def test_without_relations_rows_get_the_numbers_of_the_device_only(train: Programs, model: Conditioned) -> None:
    plain = fitted("gbt", train, relations=False)

    assert plain.config()["base_options"]["columns"] < model.config()["base_options"]["columns"]
    assert evaluate(plain.bind(DEVICES["one"]), measured("one", seed=1)).pairwise > 0.85


def test_unbound_it_does_not_score(model: Conditioned, train: Programs) -> None:
    with pytest.raises(ModelError, match="is bound to none; call its `bind`"):
        model.predict(train.rows, train.counts)


def test_programs_of_several_devices_are_scored_each_for_its_own(model: Conditioned, train: Programs) -> None:
    together = model.predict_programs(train)

    for name in ("one", "sixteen"):
        own = train.of_devices({name})
        np.testing.assert_array_equal(
            together[train.device == train.device_ids.index(name)],
            model.bind(DEVICES[name]).predict(own.rows, own.counts),
        )
    np.testing.assert_array_equal(model.predict_programs(train), together)


def test_a_model_of_one_device_passes_by_unbound(train: Programs) -> None:
    model = BASE["gbt"]()
    model.fit(train, None, seed=0, progress=False)

    assert model.bind({}) is model
    np.testing.assert_array_equal(model.predict_programs(train), model.predict(train.rows, train.counts))


def test_binding_and_updating_leave_the_model_as_it_is(model: Conditioned) -> None:
    new = measured(UNSEEN, workloads=1, seed=2)
    before = model.bind(DEVICES["one"]).predict(new.rows, new.counts)
    bound = model.bind(DEVICES[UNSEEN])

    bound.update(dataclasses.replace(new, device_ids=("",)), seed=0)

    assert model.device is None
    np.testing.assert_array_equal(model.bind(DEVICES["one"]).predict(new.rows, new.counts), before)
    assert not np.allclose(
        bound.predict(new.rows, new.counts), model.bind(DEVICES[UNSEEN]).predict(new.rows, new.counts)
    )


def test_numbers_that_are_not_known_are_taken_as_the_mean_of_those_learned_from(model: Conditioned) -> None:
    programs = measured("eight", seed=1)
    mean = float(np.exp2(np.mean([np.log2(cores) for name, cores in CORES.items() if name != UNSEEN])))

    unknown, middle = (model.bind({"device_id": "new", "kind": "cpu", "cores": cores}) for cores in (None, mean))

    np.testing.assert_allclose(
        unknown.predict(programs.rows, programs.counts),
        middle.predict(programs.rows, programs.counts),
        rtol=1e-6,
    )


def test_a_kind_it_has_never_met_is_refused(model: Conditioned) -> None:
    with pytest.raises(ModelError, match=r"None of the devices .* is of the kind 'cuda'"):
        model.bind({"device_id": "gpu", "kind": "cuda"})


def test_programs_of_a_device_without_a_row_are_refused(train: Programs, model: Conditioned) -> None:
    known = {name: row for name, row in DEVICES.items() if name != "sixteen"}
    new = Conditioned(feature_spec=SPEC, devices=known, base=BASE["gbt"]())
    alien = dataclasses.replace(measured("one"), device_ids=("alien",))

    with pytest.raises(ModelError, match="programs of the device 'sixteen', which the model does not know"):
        new.fit(train, None, seed=0, progress=False)
    with pytest.raises(ModelError, match="programs of the device 'alien'"):
        model.predict_programs(alien)


def test_a_composite_spec_is_refused() -> None:
    with pytest.raises(ModelError, match="reads one feature spec"):
        Conditioned(feature_spec="per_store@1+relation@1", devices=DEVICES)


def test_an_unknown_base_is_refused() -> None:
    with pytest.raises(ValueError, match="base must be one of gbt, mlp, blend, got 'conditioned'"):
        ConditionedOptions(base="conditioned")


def test_nothing_to_learn_is_said_before_what_is_known_of_devices(train: Programs) -> None:
    with pytest.raises(DataError, match="nothing to learn"):
        Conditioned(feature_spec=SPEC).fit(train.select(np.array([0])), None, seed=0)


@pytest.mark.parametrize(("base", "layout"), [*((base, "device@1") for base in BASES), ("gbt", "device@2")])
def test_a_folder_holds_all_but_the_rows_of_the_devices(
    base: str, layout: str, train: Programs, tmp_path: Path
) -> None:
    model = fitted(base, train, layout=layout)
    info = describe_model(model, train, device_id="many", seed=0, licence="MIT")
    programs = measured(UNSEEN, seed=1)
    wanted = model.bind(DEVICES[UNSEEN])

    save_model(model, tmp_path / "all", info)
    save_model(wanted, tmp_path / "one", info)
    loaded, one = (load_model(tmp_path / name)[0] for name in ("all", "one"))

    expected = wanted.predict(programs.rows, programs.counts)
    np.testing.assert_array_equal(loaded.bind(DEVICES[UNSEEN]).predict(programs.rows, programs.counts), expected)
    # Saved while it was bound, it stays so.
    np.testing.assert_array_equal(one.predict(programs.rows, programs.counts), expected)
    assert (loaded.config(), one.config()) == (model.config(), wanted.config())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("device_mean", []),
        ("device_mean", None),
        ("device_mean", "1.0"),
        ("device_inverse_std", [float("nan")] * 39),
        ("device_inverse_std", [10**400] * 39),
        ("device_inverse_std", [-1.0] * 39),
        ("device", [True] * 39),
        ("device", {"kind": "cpu"}),
        ("base", "mpl"),
        ("base", "conditioned"),
        ("relations", 1),
        ("relations", False),
        ("base_options", None),
        ("base_options", []),
        ("base_options", {}),
        ("members", "gbt mlp"),
        ("device_layout", "device@2"),
        ("device_layout", "device@3"),
        ("device_layout", 1),
        ("more", 1),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_in_a_sentence(
    key: str, value: object, model: Conditioned, tmp_path: Path
) -> None:
    model.save_weights(tmp_path)

    with pytest.raises(ModelError) as error:
        Conditioned(feature_spec=SPEC).load_weights(tmp_path, {**model.config(), key: value})
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_the_objective_is_that_of_the_base() -> None:
    chosen = Conditioned(feature_spec=SPEC, options=ConditionedOptions(base="mlp", objective="rank"))
    default = Conditioned(feature_spec=SPEC, options=ConditionedOptions(base="mlp"))

    assert chosen.config()["base_options"]["objective"] == "rank"
    assert default.config()["base_options"] == Mlp(feature_spec=SPEC).config()


def test_the_members_are_those_of_the_base() -> None:
    options = ConditionedOptions(base="blend", members="gbt(objective=log) mlp")
    chosen = Conditioned(feature_spec=SPEC, options=options)

    assert chosen.config()["base_options"]["members"] == "gbt(objective=log) mlp"
    assert [part.options.objective for part in chosen.base.members] == ["log", "gap"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"base": "gbt", "members": "gbt mlp"}, "belong to the base blend"),
        ({"base": "blend", "members": "?"}, "member"),
    ],
)
def test_members_that_the_base_cannot_have_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConditionedOptions(**given)


def test_a_folder_of_before_names_no_members_and_no_layout(model: Conditioned, tmp_path: Path) -> None:
    model.save_weights(tmp_path)
    older = Conditioned(feature_spec=SPEC, options=ConditionedOptions(device_layout="device@2"))
    added = ("members", "device_layout")
    older.load_weights(tmp_path, {key: value for key, value in model.config().items() if key not in added})
    rows = measured(UNSEEN, seed=1)

    assert older.options == model.options
    assert (older.options.members, older.options.device_layout) == ("", "device@1")
    np.testing.assert_array_equal(
        older.bind(DEVICES[UNSEEN]).predict(rows.rows, rows.counts),
        model.bind(DEVICES[UNSEEN]).predict(rows.rows, rows.counts),
    )


def test_a_layout_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"device_layout must be one of device@1, device@2, got 'device@3'"):
        ConditionedOptions(device_layout="device@3")


def test_told_the_targets_it_tells_gpus_apart_that_differ_in_nothing_else() -> None:
    targets = {name: json.dumps({"thread_warp_size": 4 * cores}) for name, cores in CORES.items()}
    rows = {name: {"device_id": name, "kind": "cuda", "target": target} for name, target in targets.items()}
    train = Programs.join([measured(name) for name in CORES])
    programs = measured("one", workloads=1, seed=1)
    apart = []
    for layout in LAYOUTS:
        options = ConditionedOptions(device_layout=layout)
        model = Conditioned(feature_spec=SPEC, options=options, devices=rows, base=BASE["gbt"]())
        model.fit(train, None, seed=0, progress=False)
        few, many = (model.bind(rows[name]).predict(programs.rows, programs.counts) for name in ("one", "sixtyfour"))
        apart.append(not np.array_equal(few, many))

    assert apart == [False, True]


def test_a_model_told_the_targets_is_loaded_with_its_layout(tmp_path: Path) -> None:
    spec = find_spec("tiles@1")
    rng = np.random.default_rng(0)
    rows = np.zeros((240, spec.width), np.float32)
    rows[:, spec.columns.index("thread")] = rng.uniform(0.0, 10.0, size=len(rows))
    device, warps = np.arange(len(rows)) % 2, {"a": 32, "b": 64}
    told = {
        name: {"device_id": name, "kind": "cuda", "target": json.dumps({"thread_warp_size": warp})}
        for name, warp in warps.items()
    }
    latency_s = np.exp(np.abs(rows[:, spec.columns.index("thread")] - np.log2([*warps.values()])[device]))
    ones = np.ones(len(rows), np.int64)
    programs = Programs(rows, ones, 0 * ones, ("w",), latency_s, "tiles@1", device_ids=(*told,), device=device)
    base = Gbt(feature_spec="tiles@1", options=GbtOptions(rounds=20))
    options = ConditionedOptions(device_layout="device@2")
    model = Conditioned(feature_spec="tiles@1", options=options, devices=told, base=base)
    model.fit(programs, None, seed=0, progress=False)
    model.save_weights(tmp_path)
    loaded = Conditioned(feature_spec="tiles@1")

    loaded.load_weights(tmp_path, model.config())

    assert loaded.options.device_layout == "device@2"
    scores = []
    for row in (*told.values(), {"kind": "cuda"}):  # The last is told nothing, and gets the mean of the others.
        scores.append(model.bind(row).predict(rows, ones))
        np.testing.assert_array_equal(loaded.bind(row).predict(rows, ones), scores[-1])
    assert not any(np.array_equal(one, other) for one, other in itertools.combinations(scores, 2))


def test_as_the_global_model_of_a_residual_it_is_trained_and_bound(train: Programs) -> None:
    base = Conditioned(feature_spec=SPEC, options=ConditionedOptions(base="gbt"), base=BASE["gbt"]())
    residual = Residual(feature_spec=SPEC, base=base)
    residual.add_devices(DEVICES)
    residual.fit(train, None, seed=0, progress=False)
    here = measured(UNSEEN, seed=7)

    np.testing.assert_array_equal(residual.predict_programs(train), base.predict_programs(train))
    bound = residual.bind(DEVICES[UNSEEN])
    expected = base.bind(DEVICES[UNSEEN]).predict(here.rows, here.counts)
    np.testing.assert_array_equal(bound.predict(here.rows, here.counts), expected)

    bound.update(here, seed=0)
    assert bound.bind(DEVICES["one"]) is bound  # its trees are of this device
    with pytest.raises(ModelError):
        residual.predict(here.rows, here.counts)  # which is not bound still
