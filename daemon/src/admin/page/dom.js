// Builds and changes nodes. Text only ever becomes text: keys and names come from anyone.

/** The node with this id. */
export const byId = (id) => document.getElementById(id);

/** A new node: its tag, attributes (`class`, `on…` listeners and others), and children (nodes or texts). */
export function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A new node of an SVG. */
export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Sets the text of a node, if it is another: a screen reader then speaks of changes only. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Fills `element` with what `make` returns, if `data` is not what it was filled with last. */
export function fill(element, data, make) {
  const shown = JSON.stringify(data);
  if (element.shown === shown) return;
  element.shown = shown;
  element.replaceChildren(...make().filter((child) => child !== null));
}

/** A definition list of pairs. */
export const facts = (pairs, kind = 'facts') => node('dl', { class: kind },
  ...pairs.flatMap(([name, value]) => [node('dt', {}, name), node('dd', {}, value)]));

/** A key as text. Characters that do not show, or that turn others round, are written as escapes. */
export function keyText(key) {
  const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
  return key.replace(hidden, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

/** A node that shows a key. */
export const keyNode = (key) => node('bdi', { class: 'key' }, keyText(key));

/** A bar that is `share` full. */
export function meter(share, low = 0.1) {
  const bar = drawing('rect', { width: '0', height: '6' });
  const made = drawing('svg', { class: 'meter', 'aria-hidden': 'true' }, bar);
  made.set = (now, isBad = now <= low) => {
    bar.setAttribute('width', `${Math.max(0, Math.min(1, now)) * 100}%`);
    made.classList.toggle('is-low', isBad);
  };
  made.set(share);
  return made;
}
