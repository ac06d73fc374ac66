// The page's start: a static table of modules (the manifest rewrites literal imports only), mounted where the page
// names them. What only some pages have comes with those: their templates preload it.
import * as dialog from "./forms/dialog.js";
import { startForms } from "./forms/forms.js";
import * as swap from "./forms/swap.js";
import { startAges } from "./frame/ages.js";
import { startKeys } from "./frame/keys.js";
import * as menu from "./frame/menu.js";
import * as palette from "./frame/palette.js";
import * as rail from "./frame/rail.js";
import * as search from "./frame/search.js";
import { startTheme } from "./frame/theme.js";
import * as title from "./frame/title.js";
import * as toasts from "./frame/toasts.js";
import * as fragment from "./live/fragment.js";
import * as live from "./live/live.js";
import * as server from "./live/server.js";
import * as session from "./live/session.js";
import * as copy from "./shared/copy.js";
import { mountAll, register } from "./shared/modules.js";

register({ copy, dialog, fragment, live, menu, palette, rail, search, server, session, swap, title, toasts });
register({
  beside: () => import("./grid/beside.js"),
  "browser-push": () => import("./forms/browser_push.js"),
  charts: () => import("./charts/charts.js"),
  compare: () => import("./compare/compare.js"),
  completion: () => import("./grid/completion.js"),
  "find-field": () => import("./launch/search.js"),
  gantt: () => import("./queue/gantt.js"),
  grid: () => import("./grid/grid.js"),
  launch: () => import("./launch/launch.js"),
  logs: () => import("./logs/logs.js"),
  media: () => import("./media/media.js"),
  mesh: () => import("./launch/mesh.js"),
  "queue-rows": () => import("./queue/moving.js"),
  ranks: () => import("./ranks/ranks.js"),
  "report-preview": () => import("./reports/preview.js"),
  "run-plots": () => import("./compare/plots.js"),
  "security-key": () => import("./forms/security_key.js"),
  sweep: () => import("./sweeps/sweep.js"),
  terminal: () => import("./terminal/terminal.js"),
  vary: () => import("./launch/vary.js"),
});
// The link that MLflow's client prints, /mlflow/#/experiments/0/runs/ID, has led here.
const logged = /^#\/experiments\/\w+\/runs\/(\w+)/.exec(location.hash)?.[1];
if (logged) location.replace(`/runs/${logged}/`);
startTheme();
startForms();
startKeys();
startAges();
mountAll(document);
// On a phone the tabs are wider than the page; the open one is in view.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const tabs = /** @type {HTMLElement} */ (tab.parentElement);
  tabs.scrollLeft += tab.getBoundingClientRect().right - tabs.getBoundingClientRect().right + 24;
}
