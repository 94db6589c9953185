// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Valid JSON as text: `JSON.parse` changes large numbers, and makes 1 of 1.0.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
/** What controls a line or the direction of writing. It stands in strings alone, where an escape means the same. */
const CONTROLS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** The text of a member of an object. */
export function member(text, name) {
    let depth = 0;
    let begin;
    let isKey = true;
    let key;
    for (const { 0: token, index } of text.matchAll(TOKEN)) {
        if (depth === 1 && begin !== undefined && (token === "," || token === "}")) return text.slice(begin, index).trim();
        if (depth === 1 && isKey && token.startsWith("\"")) key = JSON.parse(token);
        if (depth === 1 && token === ":") {
            isKey = false;
            if (key === name) begin = index + 1;
        }
        if (depth === 1 && token === ",") isKey = true;
        if (token === "{" || token === "[") depth += 1;
        if (token === "}" || token === "]") depth -= 1;
    }
    return undefined;
}

/** The text on lines, with all numbers as they are. Controls are escaped. */
export function laidOut(text) {
    let result = "";
    let depth = 0;
    let before = "";
    for (const [token] of text.matchAll(TOKEN)) {
        const isEnd = token === "}" || token === "]";
        const isFirst = before === "{" || before === "[";
        if (isEnd) depth -= 1;
        if (before === "," || isFirst !== isEnd) result += `\n${"  ".repeat(depth)}`;
        result += token === ":" ? ": " : token.replace(CONTROLS, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
        if (token === "{" || token === "[") depth += 1;
        before = token;
    }
    return result;
}
