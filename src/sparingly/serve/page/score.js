// The input for a score on an agent's scale: yes and no, a row of numbers, or a slider with a number; by mouse or key.
// All parts of it show the same score; which of them there are follows from the agent's scale.

import { el, show } from "./dom.js";
import { number } from "./words.js";

const BUTTONS = 11; // a scale of at most so many whole numbers gets a button for each

/** The values that get a button of their own, as [value, words, key]. */
function choices({ low, high }) {
  if (low === 0 && high === 1)
    return [
      [1, "Yes", "y"],
      [0, "No", "n"],
    ];
  if (!Number.isInteger(low) || !Number.isInteger(high) || high - low >= BUTTONS) return [];
  return Array.from({ length: high - low + 1 }, (_, place) => [
    low + place,
    number(low + place),
    digit(low + place, low),
  ]);
}

/** The key for a whole number; ten is the zero key where the scale has no zero. */
function digit(value, low) {
  if (value >= 0 && value <= 9) return String(value);
  return value === 10 && low > 0 ? "0" : null;
}

/** `changed(picked)` is called after every change; picked: by one of the buttons, not while a number is being typed. */
export function makeScore({ low, high }, changed) {
  const offered = choices({ low, high });
  const yesNo = low === 0 && high === 1;
  const radios = offered.map(([value, words, key]) => {
    const input = el("input", { type: "radio", name: "score", value, onchange: () => pick(value) });
    const hint = key === null ? null : el("kbd", { "aria-hidden": "true" }, key);
    return { value, key, input, node: el("label", { class: "choice" }, input, el("span", {}, words, " ", hint)) };
  });
  const range = { min: low, max: high, step: "any" };
  const slider = el("input", { type: "range", ...range, "aria-label": "Score, as a slider", oninput: slide });
  const exact = el("input", { type: "number", ...range, id: "score", inputmode: "decimal", oninput: type });
  let value = null;

  function pick(given) {
    set(given);
    changed(true);
  }

  function slide() {
    const rounded = Number(Number(slider.value).toPrecision(3));
    set(Math.min(high, Math.max(low, rounded)), slider);
    changed(false);
  }

  function type() {
    const fits = exact.value !== "" && exact.validity.valid;
    set(fits ? Number(exact.value) : null, exact);
    changed(false);
  }

  /** Every part shows the score, except the one that it came from. */
  function set(given, origin = null) {
    value = given;
    for (const radio of radios) radio.input.checked = radio.value === value;
    if (origin !== exact) exact.value = value ?? "";
    if (origin !== slider) slider.value = value ?? (low + high) / 2;
    slider.classList.toggle("unset", value === null);
  }

  /** Take a key, if it means something here. */
  function press(key, target) {
    if (target === exact && /^[0-9]$/.test(key)) return false;
    const radio = radios.find((candidate) => candidate.key === key || (yesNo && key === String(candidate.value)));
    if (radio) pick(radio.value);
    else if (/^[0-9.-]$/.test(key) && radios.length === 0 && target !== exact) {
      exact.value = "";
      exact.focus(); // and the key goes on into the field
      return false;
    }
    return Boolean(radio);
  }

  const buttons = el(
    "div",
    { class: "choices" },
    radios.map((radio) => radio.node),
  );
  const fine = el(
    "div",
    { class: "fine" },
    el("label", { for: "score" }, `${radios.length ? "or any" : "A"} value from ${number(low)} to ${number(high)}`),
    el(
      "div",
      { class: "sliding" },
      el("span", { "aria-hidden": "true" }, number(low)),
      slider,
      el("span", { "aria-hidden": "true" }, number(high)),
      exact,
    ),
  );
  const node = el(
    "fieldset",
    { class: "score" },
    el("legend", {}, yesNo ? "Was this a good choice?" : "How good was this choice?"),
    show(buttons, radios.length > 0),
    fine,
  );
  set(null);
  return { node, press, set, value: () => value, keys: radios.filter(({ key }) => key !== null).map(({ key }) => key) };
}
