// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Server-sent events over `fetch`, because `EventSource` sends no headers.

const LONGEST = 1 << 20;

/**
 * Reads the events of a body: objects of `id`, `type` and `data`. Comments are left out.
 * @param heard Is called whenever something comes.
 */
export async function* readEvents(body, heard) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let id = "";
    let type = "";
    let data = [];
    try {
        while (true) {
            const { value, done } = await reader.read();
            if (done) return;
            heard();
            rest += value;
            if (rest.length > LONGEST) throw new Error("an event is too long");
            // A carriage return at the end may be the first half of a line's end.
            const lines = rest.split(/\r\n|\n|\r(?!$)/);
            rest = lines.pop();
            for (const line of lines) {
                if (line === "") {
                    if (data.length || type) yield { id, type: type || "message", data: data.join("\n") };
                    [type, data] = ["", []];
                    continue;
                }
                const colon = line.indexOf(":");
                const name = colon < 0 ? line : line.slice(0, colon);
                const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
                if (name === "id") id = text;
                else if (name === "event") type = text;
                else if (name === "data") data.push(text);
            }
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
