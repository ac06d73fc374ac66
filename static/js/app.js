// The page's start: a static table of modules (the manifest rewrites literal imports only), mounted where the page names them.
// What only some pages have comes with those: their templates preload it.
import * as autosubmit from "./autosubmit.js";
import * as copy from "./copy.js";
import * as dialog from "./dialog.js";
import * as fragment from "./fragment.js";
import * as live from "./live.js";
import * as menu from "./menu.js";
import * as palette from "./palette.js";
import * as rail from "./rail.js";
import * as search from "./search.js";
import * as selection from "./selection.js";
import * as server from "./server.js";
import * as session from "./session.js";
import * as swap from "./swap.js";
import * as title from "./title.js";
import * as toasts from "./toasts.js";
import { startAges } from "./ages.js";
import { startForms } from "./forms.js";
import { startKeys } from "./keys.js";
import { startTheme } from "./theme.js";
import { register, mountAll } from "./modules.js";

register({ autosubmit, copy, dialog, fragment, live, menu, palette, rail, search, selection, server, session, swap, title, toasts });
register({
  charts: () => import("./charts/charts.js"),
  compare: () => import("./compare/compare.js"),
  launch: () => import("./launch.js"),
  logs: () => import("./logs/logs.js"),
  media: () => import("./media/media.js"),
  mesh: () => import("./mesh.js"),
});
startTheme();
startForms();
startKeys();
startAges();
mountAll(document);
