// What bench_page and bench_pages ask of a page: functions that run in it, by name. Times are milliseconds of performance.now().
(() => {
  const POINTS = "application/vnd.trainyard.columns";
  const PATIENCE_MS = 30_000;
  const inView = (element) => {
    const box = element.getBoundingClientRect();
    return box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  };
  const frame = () => new Promise(requestAnimationFrame);
  const painted = async () => [await frame(), await frame()];
  const until = async (isSo) => {
    const began = performance.now();
    while (!isSo()) {
      if (performance.now() - began > PATIENCE_MS) throw new Error(`it never came to be: ${isSo}`);
      await frame();
    }
    return performance.now();
  };
  const cards = () => [...document.querySelectorAll(".chart-card")].filter(inView);
  const areDrawn = () => cards().length > 0 && cards().every((card) => card.querySelector("canvas"));
  const type = (name, words) => {
    const box = document.querySelector(`input[name=${name}]`);
    box.value = words;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const queryOf = (key, values) => values.map((value) => `&${key}=${encodeURIComponent(value)}`).join("");

  // What a page needs that draws with uPlot alone: the library, a place, and the series of an address.
  async function bare(address) {
    const { readColumns } = await import("/static/peers/columns.js");
    const uPlot = (await import("/static/peers/uplot.js")).default; // chromium.py answers;
    const place = document.body.appendChild(document.createElement("div"));
    const began = performance.now();
    const answer = await fetch(`${address}&attempts=all&labels=%7B%7D`, { headers: { Accept: POINTS }, cache: "no-store" });
    const { series } = readColumns(await answer.arrayBuffer());
    const draw = (x, ys, scales) => new uPlot({ width: 330, height: 196, scales, series: [{}, ...ys.map(() => ({ stroke: "red" }))] }, [x, ...ys], place);
    return { began, series, draw, place };
  }

  return {
    // Until every chart in view is drawn, and then until the filter has left the one that is asked for.
    async usable(words) {
      const drawn = await until(areDrawn);
      if (words) type("filter", words);
      return { drawn, answered: words ? await until(() => cards().length === 1 && areDrawn()) : drawn };
    },
    async bareCharts({ run, names }) {
      const { began, series, draw, place } = await bare(`/api/v1/runs/${run}/series/data?points=1500${queryOf("name", names)}`);
      series.forEach((one) => draw(one.step, [one.mean ?? one.value], { x: { time: false } }));
      await painted();
      place.remove();
      return performance.now() - began;
    },
    // All runs in one plot, on the steps of the first: how long that takes, and how often it is drawn again.
    async bareOverlay({ runs, name }) {
      const { began, series, draw, place } = await bare(`/api/v1/series/data?points=600${queryOf("name", [name])}${queryOf("run", runs)}`);
      const { step } = series[0];
      const plot = draw(step, series.map((one) => one.mean ?? one.value), { x: { time: false } });
      await painted();
      const ms = performance.now() - began;
      const quarter = step.at(-1) / 4;
      const start = performance.now();
      let frames = 0;
      while (performance.now() - start < 2000) {
        const min = quarter * (1 + Math.sin(frames / 8));
        plot.setScale("x", { min, max: min + quarter });
        await frame();
        frames += 1;
      }
      const fps = (1000 * frames) / (performance.now() - start);
      place.remove();
      return { ms, fps };
    },
    // Until the pictures of a sweep that are in view are drawn, its rows among them; what is computed in the background
    // does not count.
    async sweep() {
      const plots = () => [...document.querySelectorAll("[data-plot]:not([data-plot=importance])")].filter(inView);
      const rows = () => document.querySelectorAll("#found-trials .grid-row").length;
      await until(() => rows() && plots().length && plots().every((one) => one.querySelector("canvas")));
      await painted();
      const drawn = performance.now();
      const [columns] = performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/data/"));
      return {
        drawn,
        painted: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? drawn,
        "columns asked": columns.requestStart,
        "columns came": columns.responseEnd,
        "kilobytes of columns": columns.encodedBodySize / 1000,
      };
    },
    // The times of all frames from now on, until somebody takes them.
    countFrames() {
      const times = (window.frameTimes = []);
      const next = (now) => {
        if (window.frameTimes !== times) return;
        times.push(now);
        requestAnimationFrame(next);
      };
      requestAnimationFrame(next);
    },
    takeFrames() {
      const times = window.frameTimes;
      window.frameTimes = null;
      return times;
    },
    // Until the table of runs has rows that are painted.
    async rows() {
      await until(() => [...document.querySelectorAll(".grid-row, .grid-group")].some(inView));
      return (await painted())[1];
    },
    async bareRequest(url) {
      const began = performance.now();
      await (await fetch(url, { cache: "no-store" })).text();
      return performance.now() - began;
    },
    // From a letter in the filter until the frame behind it.
    async typed(words) {
      const began = performance.now();
      type("filter", words);
      return (await painted())[1] - began;
    },
    lines: () => until(() => document.querySelector(".log-line .log-text")?.textContent),
    // From the last letter until a line with these words is in view.
    async search(words) {
      const began = performance.now();
      type("q", words);
      const hasWords = (line) => inView(line) && line.textContent.includes(words);
      return (await until(() => [...document.querySelectorAll(".log-line")].some(hasWords))) - began;
    },
    async bareSearch({ run, words }) {
      const began = performance.now();
      await (await fetch(`/api/v1/runs/${run}/logs/search?q=${encodeURIComponent(words)}&budget_ms=2000&limit=50`)).json();
      return performance.now() - began;
    },
    // The longest time, frame by frame, in which the list showed less than lines with text.
    watchBlanks() {
      window.longestBlank = 0;
      const list = document.querySelector("[data-lines]");
      let since = null;
      const look = (now) => {
        const { top, bottom, height } = list.getBoundingClientRect();
        const boxes = [...list.querySelectorAll(".log-line")].map((row) => [row, row.getBoundingClientRect()]);
        const seen = boxes.filter(([, box]) => box.bottom > top + 1 && box.top < bottom - 1);
        const covered = seen.reduce((sum, [, box]) => sum + box.height, 0);
        const isBlank = covered < 0.8 * height || seen.some(([row]) => !row.querySelector(".log-text")?.textContent);
        since = isBlank ? (since ?? now) : null;
        if (since !== null) window.longestBlank = Math.max(window.longestBlank, now - since);
        requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    },
    longestBlank: () => window.longestBlank,
  };
})()
