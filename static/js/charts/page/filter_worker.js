// Which names a regular expression fits, away from the page: one that explodes is ended by ending this.
addEventListener("message", ({ data: { number, pattern, names } }) => {
  const fits = new RegExp(pattern, "i");
  postMessage({ number, fitting: names.filter((name) => fits.test(name)) });
});
