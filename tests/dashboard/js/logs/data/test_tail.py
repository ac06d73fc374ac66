"""Live: however many hints come, one fetch at a time, and none while nobody looks."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

TAIL = """
    const {Tail} = module;
    const server = {trouble: "", asked: 0, answers: []};
    server.get = () => { server.asked += 1; return new Promise((resolve) => server.answers.push(resolve)); };
    const pages = [];
    const parts = {api: server, range: () => ({}), isFollowing: () => true, onPage: (page) => pages.push(page)};
    const tail = new Tail(parts);
    const until = async (condition) => {
        for (let tries = 0; tries < 200 && !condition(); tries += 1) await new Promise((done) => setTimeout(done, 10));
    };
"""


def told(ask: Ask, script: str) -> object:
    return ask("logs/data/tail.js", "async (module) => {" + TAIL + script + "}")


def test_a_flood_of_hints_is_one_fetch_at_a_time(ask_page: Ask) -> None:
    script = """
        for (let at = 0; at < 1000; at += 1) tail.hint();
        await until(() => server.asked === 1);
        for (let at = 0; at < 1000; at += 1) tail.hint();
        const busy = server.asked;
        server.answers.shift()("one");
        await until(() => server.asked === 2);
        server.answers.shift()("two");
        await until(() => pages.length === 2);
        tail.close();
        return [busy, server.asked, pages];
    """
    assert told(ask_page, script) == [1, 2, ["one", "two"]]


def test_an_older_answer_is_thrown_away(ask_page: Ask) -> None:
    script = """
        const old = tail.fetch();
        const now = tail.fetch();
        server.answers[1]("new");
        server.answers[0]("old");
        return [await old, await now, pages];
    """
    assert told(ask_page, script) == [False, True, ["new"]]


def test_a_server_that_is_away_is_asked_again(ask_page: Ask) -> None:
    script = """
        const first = tail.fetch();
        server.trouble = "away";
        server.answers.shift()(null);
        await first;
        await until(() => server.asked === 2);
        server.trouble = "";
        server.answers.shift()("back");
        await until(() => pages.length);
        return [server.asked, pages];
    """
    assert told(ask_page, script) == [2, ["back"]]


def test_a_run_that_is_gone_is_asked_no_more(ask_page: Ask) -> None:
    script = """
        server.trouble = "gone";
        tail.hint();
        await new Promise((done) => setTimeout(done, 300));
        return server.asked;
    """
    assert told(ask_page, script) == 0
