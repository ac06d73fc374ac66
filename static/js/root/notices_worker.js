// The service worker of notices, at /notices_worker.js: shows what a push service delivers, also while no page is open.
const worker = /** @type {any} */ (self);

worker.addEventListener("install", () => worker.skipWaiting()); // tabs that stay open keep no older one

worker.addEventListener("push", (/** @type {any} */ event) => {
  const { title, body, path, tag } = event.data.json();
  event.waitUntil(worker.registration.showNotification(title, { body, tag, data: path }));
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(goTo(event.notification.data));
});

// Shows the tab that has the page, or a part of it such as a run's logs; else opens it.
/** @param {string} path */
async function goTo(path) {
  const tabs = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const tab = tabs.find((/** @type {{url: string}} */ { url }) => new URL(url).pathname.startsWith(path));
  return tab ? tab.focus() : worker.clients.openWindow(path);
}
