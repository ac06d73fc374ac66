// The Media tab: sections by prefix, a card per name and labels, one filter and one step for all.
export function mount() {}
