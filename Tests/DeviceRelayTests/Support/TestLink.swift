// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import DeviceRelay

/// A control link whose connection, answers and delays the test controls.
final class TestLink: ControlSending {
    var isConnected = false
    var limits = Limits()
    var sentMessages = CurrentValue<[EndpointMessage]>([])
    private var last: RequestRef?
    private var answers: [RequestRef: (ControlAnswer) -> Void] = [:]
    /// The closures that wait for the end of their delay.
    private(set) var delayed: [() -> Void] = []

    func request(_ make: @escaping (RequestRef) -> EndpointMessage, answer: @escaping (ControlAnswer) -> Void) {
        guard isConnected else { return answer(.connectionLost) }
        let ref = last?.next ?? .first
        last = ref
        answers[ref] = answer
        say(make(ref))
    }

    func say(_ message: EndpointMessage) { if isConnected { sentMessages.update { $0.append(message) } } }

    func afterOnConnection(_ delay: Int64, _ body: @escaping () -> Void) { delayed.append(body) }

    func close(code: UInt16, reason: String) { disconnect() }

    func answer(_ ref: RequestRef, _ answer: ControlAnswer) { answers.removeValue(forKey: ref)?(answer) }

    /// Ends all delays.
    func passDelays() {
        let due = delayed
        delayed = []
        for body in due { body() }
    }

    func disconnect() {
        isConnected = false
        delayed = []
        let lost = answers.values
        answers = [:]
        for answer in lost { answer(.connectionLost) }
    }
}
