// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// One tab of the console reads the agent's events, and hands them to the others: a browser has six connections to one agent for all of its
// tabs, and each stream of events holds one.

const NAME = "device-relay.events";

/** The tabs of this console. A browser without locks or channels has only this one, which reads for itself. */
export class Tabs {
    #channel;

    get areKnown() { return !!navigator.locks && !!globalThis.BroadcastChannel; }

    /**
     * Has one tab at a time lead.
     * @param lead Leads until its promise ends. Its argument says whether another tab led before, so that something may be missed.
     * @param hear Is called with what other tabs tell.
     */
    async join(signal, { lead, hear }) {
        if (!this.areKnown) return lead(false);
        const channel = this.#channel = new BroadcastChannel(NAME);
        channel.addEventListener("message", ({ data }) => hear(data));
        signal.addEventListener("abort", () => {
            channel.close();
            this.#channel = undefined;
        }, { once: true });
        const isLeft = await navigator.locks.request(NAME, { ifAvailable: true }, async (lock) => {
            if (lock) await lead(false);
            return !!lock;
        });
        if (isLeft || signal.aborted) return undefined;
        return navigator.locks.request(NAME, { signal }, () => lead(true)).catch((error) => {
            if (!signal.aborted) throw error;
        });
    }

    /** Tells the other tabs. */
    tell(event) {
        if (!this.areKnown) return;
        // A tab that has not joined speaks, too. One that has does not hear itself.
        const channel = this.#channel ?? new BroadcastChannel(NAME);
        channel.postMessage(event);
        if (channel !== this.#channel) channel.close();
    }
}
