// Numbers, times and the service's own terms in words for people.
// Times are shown in the reader's own time zone; numbers in the way of the rest of the page, which is in English.

const shortNumber = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const wholeNumber = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const seconds = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const month = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });

/** Large numbers to the hundredth, small ones with four digits. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(2).replace("-", "−");
  return (Math.abs(value) >= 100 ? wholeNumber : shortNumber).format(value).replace("-", "−");
}

export function count(n, noun, plural = `${noun}s`) {
  return `${number(n)} ${n === 1 ? noun : plural}`;
}

export const times = {
  clock: (ms) => clock.format(ms),
  seconds: (ms) => seconds.format(ms),
  day: (ms) => day.format(ms),
  month: (ms) => month.format(ms),
  date: (ms) => date.format(ms),
  full: (ms) => full.format(ms),
};

/** A moment as briefly as can be: the time if it is today, else the day too. */
export function moment(text) {
  const at = new Date(text);
  const today = at.toDateString() === new Date().toDateString();
  return today ? seconds.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

const UNITS = [
  [604800, "week"],
  [86400, "day"],
  [3600, "hour"],
  [60, "minute"],
  [1, "second"],
];

/** Seconds in the largest unit that divides them. */
export function duration(length) {
  const [size, unit] = UNITS.find(([whole]) => length % whole === 0) ?? [1, "second"];
  return count(length / size, unit);
}

export const REASONS = {
  width_reaches_threshold: "uncertain enough",
  reserve: "from the reserve",
  worth_it: "worth it",
  below_threshold: "below the threshold",
  free_part_spent: "free part spent",
  better_rounds: "better rounds expected",
  settled: "settled",
  budget_exhausted: "budget used up",
  paused: "paused",
};

export const STATUSES = {
  not_asked: "not asked",
  held: "held",
  open: "open",
  answered: "answered",
  unanswered: "unanswered",
  released: "released",
  expired: "expired",
};

/** How an agent's budget grows, in a few words. */
export function growth(rule) {
  if (rule.by === "clock") {
    const unit = UNITS.find(([size]) => size === rule.every);
    return `grows by ${number(rule.amount)} every ${unit ? unit[1] : duration(rule.every)}`;
  }
  if (rule.by === "decisions") return `grows by ${number(rule.rate)} with every decision`;
  return "grows only by grants";
}

/** What an agent is made of, in one line. */
export function settings(body) {
  const { learner, rule, actions, contexts, rewards } = body;
  const options = rule.type === "Matching" ? ` (α ${number(rule.alpha)}, β ${number(rule.beta)})` : "";
  return [
    learner.type === "OFUL" ? `OFUL, ${count(learner.dim, "feature")}` : learner.type,
    `${rule.type}${options}`,
    actions ? count(actions.length, "action") : null,
    contexts ? count(contexts.length, "context") : null,
    `rewards ${number(rewards.low)} to ${number(rewards.high)}`,
    growth(body.budget.growth),
  ]
    .filter(Boolean)
    .join(" · ");
}
