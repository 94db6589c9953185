// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The texts of answers, which are English, in the reader's language.

/** The members of answers that are texts for a person. */
const TEXTS = new Set(["message", "advice", "detail"]);
/** So many texts the agent takes at a time, and so many are kept. */
const MOST = 100;
const KEPT = 1_000;
/** How deep the texts of an answer are. */
const DEPTH = 6;

const known = new Map();

/**
 * Puts translations in the places of the texts of an answer.
 * @param ask Translates a list of texts; it may answer with fewer.
 * @returns The answer itself.
 */
export async function translate(answer, language, ask) {
    if (language === "en") return answer;
    const places = [];
    find(answer, places, DEPTH);
    const words = new Map(places.map(([object, key]) => [object[key], known.get(object[key])]));
    const unknown = [...words.keys()].filter((text) => !words.get(text)).slice(0, MOST);
    if (unknown.length > 0) {
        // Only the language is at stake.
        const translated = await ask(unknown).catch(() => []);
        if (known.size > KEPT) known.clear();
        unknown.forEach((text, index) => {
            if (!translated[index]) return;
            words.set(text, translated[index]);
            known.set(text, translated[index]);
        });
    }
    for (const [object, key] of places) object[key] = words.get(object[key]) ?? object[key];
    return answer;
}

function find(value, places, depth) {
    if (typeof value !== "object" || value === null || depth === 0) return;
    for (const [key, inner] of Object.entries(value)) {
        if (typeof inner !== "string") find(inner, places, depth - 1);
        else if (TEXTS.has(key) && inner) places.push([value, key]);
    }
}
