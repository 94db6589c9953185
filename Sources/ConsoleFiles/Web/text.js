// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The words of `i18n`, and times, sizes and lists in the reader's language.

/** The languages of `i18n`, each with the script of its words. */
const LANGUAGES = { de: "Latn", en: "Latn", fr: "Latn", zh: "Hans" };

/** The reader's first language that has words here, with its region, such as `de-AT`: times and numbers are as there. */
const locale = (navigator.languages ?? []).find((tag) => {
    try {
        const { language, script } = new Intl.Locale(tag).maximize();
        return LANGUAGES[language] === script;
    } catch {
        return false;
    }
}) ?? "en";

/** The language of the words. */
export const { language } = new Intl.Locale(locale);

const plural = new Intl.PluralRules(locale);
let words = {};

/** Loads the words of the reader's language, and no others. */
export async function loadWords() {
    const answer = await fetch(`i18n/${language}.json`);
    words = await answer.json();
    document.documentElement.lang = language;
}

/** The words of a key; `{name}` stands for a value. A key with a count has the forms of its language: `devices.one`, `devices.other`. */
export function t(key, values = {}) {
    let text = words[key];
    if (text === undefined && "count" in values) {
        const form = plural.select(values.count);
        text = words[`${key}.${form}`] ?? words[`${key}.other`];
    }
    return (text ?? key).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

export const has = (key) => key in words;

const clock = new Intl.DateTimeFormat(locale, { timeStyle: "short" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });

/** A time in words: today without the date. */
export function when(text) {
    const time = new Date(text);
    if (Number.isNaN(time.getTime())) return "";
    return time.toDateString() === new Date().toDateString() ? clock.format(time) : full.format(time);
}

/** An element with a time. */
export function time(text, dateOnly) {
    const moment = new Date(text);
    const element = document.createElement("time");
    if (Number.isNaN(moment.getTime())) return element;
    element.dateTime = moment.toISOString();
    element.title = full.format(moment);
    element.textContent = dateOnly ? day.format(moment) : when(text);
    return element;
}

/** A text with elements in the places of values: `joined {time}`. */
export function parts(key, values) {
    return t(key).split(/(\{\w+\})/).map((part) => {
        const name = part.match(/^\{(\w+)\}$/)?.[1];
        return name in values ? values[name] : part;
    });
}

/** A duration, such as `15 min`. */
export function duration(seconds) {
    const [value, unit] = seconds < 90 ? [seconds, "second"] : seconds < 5400 ? [seconds / 60, "minute"]
        : seconds < 129600 ? [seconds / 3600, "hour"] : [seconds / 86400, "day"];
    return new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 0 }).format(value);
}

/** A number, such as `1,000`. */
export const number = (count) => new Intl.NumberFormat(locale).format(count);

/** A number of bytes, such as `3.2 MB`. */
export function bytes(count) {
    const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
    const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
    // The short form of bytes is not that of more than one.
    const unitDisplay = step ? "short" : "long";
    return new Intl.NumberFormat(locale, { style: "unit", unit: units[step], unitDisplay, maximumFractionDigits: step ? 1 : 0 })
        .format(count / 1000 ** step);
}

export const milliseconds = (count) =>
    new Intl.NumberFormat(locale, { style: "unit", unit: "millisecond", unitDisplay: "short", maximumFractionDigits: count < 10 ? 1 : 0 })
        .format(count);

export const list = (texts) => new Intl.ListFormat(locale, { type: "unit" }).format(texts);

/** A text as one word of a shell: names of other devices reach a command line only so. */
export const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const collator = new Intl.Collator(locale, { numeric: true, sensitivity: "base" });
export const byName = (first, second) => collator.compare(first.name, second.name);
