// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Questions and problems.

import { button, h, keepFocus, sentence } from "./dom.js";
import { has, t } from "./text.js";

/** No answer counts this soon after its question appeared, moved, or got the focus back: it was meant for something else. */
const HASTE = 500;

/** Tells whether an answer comes too soon. One guard belongs to the elements of one question. */
export class Guard {
    #since = performance.now();

    constructor(signal) {
        addEventListener("focus", () => this.restart(), { signal });
        document.addEventListener("visibilitychange", () => this.restart(), { signal });
    }

    /** The question has appeared or moved. */
    restart() { this.#since = performance.now(); }

    /** An action that does nothing if it comes too soon. */
    guarding = (action) => (event) => { if (performance.now() - this.#since >= HASTE) action(event); };
}

/**
 * Asks before something happens that cannot be undone, or that needs a look. Nothing is preselected.
 * @returns Whether the answer is yes.
 */
export function question({ title, text, yes, no, isDestructive }) {
    return new Promise((resolve) => {
        const left = new AbortController();
        const guard = new Guard(left.signal);
        const before = document.activeElement;
        const heading = h("h2", { tabindex: "-1", id: "question" }, title);
        const dialog = h("dialog", { class: "card question", "aria-labelledby": "question" },
            heading, ...[text].flat(),
            h("div", { class: "buttons" },
                button(yes, guard.guarding(() => dialog.close("yes")), { look: isDestructive ? "destructive" : "primary" }),
                button(no ?? t("no"), () => dialog.close("no"))));
        dialog.addEventListener("close", () => {
            left.abort();
            dialog.remove();
            before?.focus?.();
            // What asked may be gone meanwhile.
            keepFocus(document.getElementById("main"));
            resolve(dialog.returnValue === "yes");
        });
        document.body.append(dialog);
        dialog.showModal();
        heading.focus();
        guard.restart();
    });
}

/** A problem in words: what happened, and the next step. */
export function problemText(error) {
    if (!(error instanceof Error) || !("code" in error)) return t("problem.page", { message: String(error?.message ?? error) });
    if (has(`problem.${error.code}`)) return t(`problem.${error.code}`, { message: error.message });
    return error.message ? t("problem.failed", { message: error.message }) : t("problem.unexplained", { code: error.code });
}

export const problemNote = (error) => h("p", { class: `note ${["noAgent", "agentSilent"].includes(error?.code) ? "unanswered" : ""}`, role: "alert" },
    sentence(problemText(error)));

export const problemCard = (error, again) => h("div", { class: "card" }, problemNote(error), again && button(t("again"), again, { look: "primary" }));

/**
 * Does something that may fail, and shows the failure before `place`.
 * @returns Its result, or nothing.
 */
export async function attempt(place, action) {
    place.parentElement?.querySelector(":scope > .note[role=alert]")?.remove();
    try {
        return await action();
    } catch (error) {
        if (error.name !== "AbortError") place.before(problemNote(error));
        return undefined;
    }
}
