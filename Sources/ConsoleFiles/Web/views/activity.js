// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// What was done here, and who did it.

import { button, card, field, h, redraw, rows, select, state } from "../dom.js";
import { attempt } from "../question.js";
import { address, afterwards, inTurn } from "../router.js";
import { has, t, time } from "../text.js";

export async function show({ model, body, on, signal }) {
    let entries = [];
    let hasMore = false;
    let tokens = [];
    const who = select([], { "data-key": "who" });
    const what = select([], { "data-key": "what" });
    const all = h("div");
    for (const each of [who, what]) each.addEventListener("change", draw);
    body.replaceChildren(h("p", { class: "quiet" }, t("activity.text")),
        h("div", { class: "filters" }, field(t("activity.who"), who), field(t("activity.what"), what)), all);
    const read = inTurn(async () => {
        const [answer, known] = await Promise.all([model.audit(), model.tokens().catch(() => ({ tokens: [] })),
            model.devices().catch(() => {})]);
        if (signal.aborted) return;
        tokens = known.tokens;
        // What was read of older ones stays.
        const oldest = model.hasMore(answer.entries) ? answer.entries.at(-1).sequence : 0;
        const rest = entries.filter((each) => each.sequence < oldest);
        take([...answer.entries, ...rest], rest.length ? hasMore : model.hasMore(answer.entries));
    });
    await read();
    on(["reset"], read);
    // What is done is written down when it is over, which may follow the event.
    on(["command", "device", "ask", "transfer"], afterwards(read, signal));

    async function readMore() {
        const answer = await attempt(all, () => model.audit(entries.at(-1).sequence));
        if (answer) take([...entries, ...answer.entries], model.hasMore(answer.entries));
    }

    function take(all, more) {
        entries = all;
        hasMore = more;
        choices(who, entries.map((each) => each.principal), principalWord);
        choices(what, entries.map((each) => each.action), actionWord);
        draw();
    }

    function choices(element, values, word) {
        const chosen = element.value;
        const all = [["", t("activity.all")], ...[...new Set(values)].sort().map((each) => [each, word(each)])];
        // An open list would close.
        if (all.map(String).join("\n") === [...element.options].map((each) => [each.value, each.text].join()).join("\n")) return;
        element.replaceChildren(...all.map(([value, text]) => h("option", { value }, text)));
        element.value = chosen;
    }

    function draw() {
        const shown = entries.filter((each) => (!who.value || each.principal === who.value) && (!what.value || each.action === what.value));
        redraw(all, card(undefined, rows(fold(shown).map(drawEntry), t(entries.length ? "activity.nothing" : "activity.none"))),
            hasMore && button(t("more"), readMore, { key: "more" }));
    }

    /** `owner`, `console`, or `token:` and its id. */
    function principalWord(principal) {
        const [kind, id] = principal.split(":");
        if (kind === "device") return model.nameOf(id) ?? t("principal.device", { name: id.slice(0, 8) });
        const name = tokens.find((each) => each.id === id)?.name ?? id;
        return has(`principal.${kind}`) ? t(`principal.${kind}`, { name }) : principal;
    }

    function drawEntry(entry) {
        const device = model.nameOf(entry.device) ?? entry.device?.slice(0, 8);
        return h("li", { class: "row" },
            h("div", { class: "what" },
                h("div", { class: "name" }, actionWord(entry.action), entry.count > 1 && ` × ${entry.count}`),
                h("div", { class: "meta" }, [...new Set([principalWord(entry.principal), device, entry.subject])].filter(Boolean).join(" · "))),
            h("div", { class: "outcome" }, answerState(entry.answer),
                OPEN.has(entry.answer) && h("a", { class: "small", href: address("history") }, t("activity.outcome")),
                h("span", { class: "meta" }, time(entry.time))));
    }
}

/** The same several times in a row is one entry with a number. */
function fold(entries) {
    const folded = [];
    for (const entry of entries) {
        const last = folded.at(-1);
        if (last && ["principal", "action", "device", "subject", "answer"].every((each) => entry[each] === last[each])) {
            last.count = (last.count ?? 1) + (entry.count ?? 1);
        } else {
            folded.push({ ...entry });
        }
    }
    return folded;
}

const actionWord = (action) => has(`action.${action}`) ? t(`action.${action}`) : action;

/** A person's No is an answer like others, and no fault. */
const DECLINED = new Set(["no", "declined", "unanswered"]);
const BAD = new Set(["refused", "failed"]);
/** It went on, and this entry does not know how it ended. */
const OPEN = new Set(["stored", "accepted", "waking", "delivered"]);

/** What came of it: an answer of a person, a state, or the code of a failure. */
function answerState(answer) {
    if (has(`answer.${answer}`)) return state({ word: t(`answer.${answer}`), tone: BAD.has(answer) ? "bad" : OPEN.has(answer) || DECLINED.has(answer) ? "" : "good" });
    return state({ word: has(`failure.${answer}`) ? t(`failure.${answer}`) : t("answer.failed.of", { code: answer }), tone: "bad" });
}
