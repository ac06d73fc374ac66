// The view of each kind of media. A view has show(entry, whole) -> words for the caption, download(name, entry, whole),
// close(), and where it needs them prefetch(entry), grow() and reading(). One that `isFile` shows media.file(entry.id),
// and the whole item is not read for it.
import { HistogramView } from "../histograms/histogram.js";
import { AudioView } from "./audio.js";
import { ImageView } from "./image.js";
import { TableView } from "./table.js";
import { TextView } from "./text.js";

const VIEWS = { histogram: HistogramView, image: ImageView, text: TextView, table: TableView, audio: AudioView };

export function viewOf(kind, host, context) {
  return new (VIEWS[kind] ?? TextView)(host, context);
}
