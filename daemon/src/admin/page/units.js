// Numbers with their units.

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** A count, shortened from a million on. */
export const count = (number) => (number >= 1e6 ? short : whole).format(number);

/** A count of things, such as "3 keys". */
export const many = (number, thing) => `${count(number)} ${thing}${number === 1 ? '' : 's'}`;

/** Takes per second: one digit behind the point below 10. */
export function perSecond(number) {
  if (number === null || number === undefined) return '–';
  if (number > 0 && number < 0.05) return '< 0.1/s';
  return `${(number < 10 ? fine : number >= 1e6 ? short : whole).format(number)}/s`;
}

/** A rate of a config, such as "1000/s", with separators. */
export const rate = (text) => text.replace(/\d{4,}/g, (digits) => whole.format(Number(digits)));

/** A time in ms. */
export function millis(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms >= 60000) return span(ms / 1000);
  return ms < 10 ? `${fine.format(ms)} ms` : ms < 1000 ? `${whole.format(ms)} ms` : `${fine.format(ms / 1000)} s`;
}

/** A time in seconds, in its two largest units. */
export function span(seconds) {
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  let rest = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [name, length] of units) {
    const many = Math.floor(rest / length);
    if (many > 0 && parts.length < 2) parts.push(`${many} ${name}`);
    else if (parts.length > 0) break;
    rest -= many * length;
  }
  return parts.length > 0 ? parts.join(' ') : '0 s';
}

/** The seconds from one instant to another, both as text. */
export const between = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;

/** An instant as the clock of the reader shows it, with the day if it is another. */
export function clock(instant) {
  const at = new Date(instant);
  const time = at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  return at.toDateString() === new Date().toDateString() ? time
    : `${at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })}, ${time}`;
}
