"""Lines by their place: fetched around what is in view, kept while they are near."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

# A log of as many lines as it is told, whose answers come when the test lets them.
LOG = """
    const {Blocks} = module;
    const log = {total: 1000, asked: [], waiting: [], trouble: "", text: (index) => `line ${index}`};
    log.get = (path, {start, limit}, {signal} = {}) => new Promise((resolve) => {
        log.asked.push(start);
        signal?.addEventListener("abort", () => { log.asked.push(`-${start}`); resolve(null); });
        log.waiting.push(() => resolve(log.page(start, limit)));
    });
    log.page = (start, limit) => {
        const numLines = Math.min(limit, log.total - start);
        const items = Array.from({length: numLines}, (_, at) => ({id: `l${start + at}`, text: log.text(start + at)}));
        return {total: log.total, start, items};
    };
    log.answer = async () => {
        log.waiting.splice(0).forEach((one) => one());
        await new Promise((done) => setTimeout(done));
    };
    const blocks = new Blocks(log, () => {});
"""


def told(ask: Ask, script: str) -> object:
    return ask("logs/data/blocks.js", "async (module) => {" + LOG + script + "}")


def test_what_is_in_view_is_fetched_first_and_then_what_comes_next(ask: Ask) -> None:
    script = """
        blocks.take(log.page(0, 50));
        blocks.want(190, 220);
        const first = [...log.asked];
        await log.answer();
        const has = [190, 219, 900].map((index) => blocks.get(index)?.text);
        return {first, then: log.asked.slice(2), has};
    """
    assert told(ask, script) == {"first": [0, 200], "then": [400, 600], "has": ["line 190", "line 219", None]}


def test_moving_up_fetches_what_stands_above(ask: Ask) -> None:
    script = """
        blocks.take(log.page(800, 200));
        blocks.want(850, 880);
        blocks.want(810, 840);
        return log.asked;
    """
    assert told(ask, script) == [600, 400]


def test_what_was_fetched_ahead_gives_way_to_what_is_in_view(ask: Ask) -> None:
    script = """
        log.total = 100_000;
        blocks.take(log.page(0, 200));
        blocks.want(0, 30);
        blocks.want(50_000, 50_030);
        return log.asked;
    """
    assert told(ask, script) == [200, 400, "-200", 50_000]


def test_a_view_that_moves_on_is_let_come(ask: Ask) -> None:
    script = """
        log.total = 100_000;
        blocks.take(log.page(0, 1));
        for (let top = 10_000; top < 20_000; top += 1000) blocks.want(top, top + 30);
        await log.answer();
        return log.asked;
    """
    assert told(ask, script) == [10_000, 11_000, 19_000]


def test_only_so_many_blocks_are_kept(ask: Ask) -> None:
    script = """
        log.total = 100_000;
        for (let at = 0; at < 60; at += 1) blocks.take(log.page(200 * at, 200));
        return [blocks.get(0), blocks.indexOf("l0"), blocks.get(11_999).text, blocks.blocks.size];
    """
    assert told(ask, script) == [None, -1, "line 11999", 40]


def test_lines_that_came_late_move_the_others(ask: Ask) -> None:
    script = """
        blocks.take(log.page(0, 200));
        const before = blocks.indexOf("l10");
        const later = log.page(0, 200);
        later.total = 1001;
        later.items.unshift({id: "late", text: "late"});
        blocks.take({...later, items: later.items.slice(0, 200)});
        blocks.want(0, 20);
        return [before, blocks.indexOf("l10"), blocks.get(0).text];
    """
    assert told(ask, script) == [10, 11, "late"]


def test_what_was_read_is_shown_until_it_was_read_again(ask: Ask) -> None:
    script = """
        blocks.take(log.page(0, 200));
        log.total = 2000;
        blocks.take(log.page(1900, 100));
        log.text = (index) => `now ${index}`;
        blocks.want(0, 20);
        const old = blocks.get(5).text;
        await log.answer();
        return [old, blocks.get(5).text, log.asked[0]];
    """
    assert told(ask, script) == ["line 5", "now 5", 0]


def test_an_answer_for_other_filters_is_thrown_away(ask: Ask) -> None:
    script = """
        blocks.take(log.page(0, 1));
        blocks.want(0, 20);
        blocks.clear();
        await log.answer();
        return [blocks.isKnown, blocks.total, blocks.get(0)];
    """
    assert told(ask, script) == [False, 0, None]


def test_a_line_that_moved_is_known_at_its_new_place_alone(ask: Ask) -> None:
    script = """
        const line = (id) => ({id, text: id});
        blocks.take({total: 201, start: 199, items: [line("a"), line("b")]});
        blocks.take({total: 202, start: 199, items: [line("late"), line("a"), line("b")]});
        blocks.drop(0);
        const moved = ["late", "a", "b"].map((id) => blocks.indexOf(id));
        blocks.take({total: 202, start: 200, items: [line("x"), line("y")]});
        return [moved, [...blocks.places.keys()]];
    """
    assert told(ask, script) == [[-1, 200, 201], ["x", "y"]]
