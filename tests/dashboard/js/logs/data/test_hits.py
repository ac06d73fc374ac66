"""The hits of a search, which come bit by bit."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

SEARCH = """
    const {Hits} = module;
    const server = {pages: [], asked: [], trouble: "", reason: ""};
    server.get = async (path, parameters) => {
        server.asked.push({...parameters});
        return server.pages.shift() ?? null;
    };
    const hit = (index) => ({id: `l${index}`, index, text: "x", spans: [[0, 1]]});
    const page = (indexes, next, isOver = false) =>
        ({items: indexes.map(hit), next, num_scanned: indexes.at(-1) ?? 0, total: 9000, is_over: isOver});
    const seen = [];
    const hits = new Hits(server, () => seen.push([hits.total, hits.isOver]));
"""


def told(ask: Ask, script: str) -> object:
    return ask("logs/data/hits.js", "async (module) => {" + SEARCH + script + "}")


def test_a_search_goes_on_where_it_stopped_until_all_is_seen(ask: Ask) -> None:
    script = """
        server.pages = [page([3, 5], "a"), page([], "b"), page([8], null, true)];
        await hits.search({q: "x"});
        const [found, asked] = [hits.items.map((line) => line.index), server.asked.map((one) => one.after)];
        return {found, asked, seen: seen.slice(0, 3), isBusy: hits.isBusy};
    """
    seen = [[2, False], [2, False], [3, True]]
    assert told(ask, script) == {"found": [3, 5, 8], "asked": ["", "a", "b"], "seen": seen, "isBusy": False}


def test_a_hit_counts_once(ask: Ask) -> None:
    script = """
        server.pages = [page([3], "a", true)];
        await hits.search({q: "x"});
        server.pages = [page([3, 9], "b", true)];
        await hits.go();
        return [hits.items.map((line) => line.index), server.asked.at(-1).after];
    """
    assert told(ask, script) == [[3, 9], "a"]


def test_a_hit_that_came_late_stands_where_it_belongs(ask: Ask) -> None:
    script = """
        server.pages = [page([3, 9], "a", true)];
        await hits.search({q: "x"});
        server.pages = [page([5], null, true)];
        await hits.go();
        return [hits.items.map((line) => line.index), hits.next];
    """
    assert told(ask, script) == [[3, 5, 9], "a"]


def test_more_hits_than_anybody_reads_wait_until_one_comes_near(ask: Ask) -> None:
    script = """
        const full = (from) => page(Array.from({length: 500}, (_, at) => from + at), `c${from}`);
        server.pages = Array.from({length: 30}, (_, at) => full(500 * at));
        await hits.search({q: "x"});
        const first = hits.total;
        hits.want(0, 30);
        const still = server.asked.length;
        hits.want(990, 1000);
        return [first, still, server.asked.length];
    """
    assert told(ask, script) == [1000, 2, 3]


def test_a_pattern_that_is_none_is_explained(ask: Ask) -> None:
    script = """
        server.get = async () => { server.reason = "missing )"; return null; };
        await hits.search({q: "(", regex: "true"});
        return [hits.problem, hits.total, hits.isBusy];
    """
    assert told(ask, script) == ["missing )", 0, False]


def test_words_that_were_changed_leave_nothing_of_the_old_search(ask: Ask) -> None:
    script = """
        let answer;
        server.get = () => new Promise((resolve) => (answer = resolve));
        const old = hits.search({q: "old"});
        const first = answer;
        const now = hits.search({q: "new"});
        first(page([1], null, true));
        answer(page([2], null, true));
        await Promise.all([old, now]);
        return hits.items.map((line) => line.index);
    """
    assert told(ask, script) == [2]
