// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import Logging
import RelayProtocol

/// Counts attempts, and logs what the operator must know. Metrics and logs contain no token, key or address.
struct PushJournal: Sendable {
    private let logger: Logger
    private let factory: any MetricsFactory

    init(logger: Logger, metrics factory: any MetricsFactory) {
        self.logger = logger
        self.factory = factory
    }

    func attempted(_ service: PushService, _ outcome: PushOutcome) {
        let dimensions = [("service", service.rawValue), ("outcome", outcome.name)]
        Counter(label: "relay_push_attempts_total", dimensions: dimensions, factory: factory).increment()
    }

    func record(_ report: WakeReport) {
        switch report {
        case .accepted, .registrationGone: break
        case .credentialStopped(let credential, let reason):
            logger.error("The push provider rejects a credential.", metadata: ["credential": "\(credential)", "reason": "\(reason)"])
        case .notSent(let order, let why):
            Counter(label: "relay_push_wakes_not_sent_total", dimensions: [("reason", why.name)], factory: factory).increment()
            let metadata: Logger.Metadata = ["credential": "\(order.credential)", "why": "\(why.name)", "reason": "\(why.detail)"]
            switch why {
            case .rejected, .mismatched: logger.notice("A push was rejected.", metadata: metadata)
            default: logger.debug("A wake was not sent.", metadata: metadata)
            }
        }
    }
}

extension WakeReport.NotSent {
    /// The name in metrics and logs. It contains no token and no address.
    package var name: String {
        switch self {
        case .expired: "expired"
        case .connected: "connected"
        case .elsewhere: "elsewhere"
        case .tooOften: "tooOften"
        case .tooManyWait: "tooManyWait"
        case .unknownCredential: "unknownCredential"
        case .credentialStopped: "credentialStopped"
        case .paused: "paused"
        case .failed: "failed"
        case .dropped: "dropped"
        case .rejected: "rejected"
        case .mismatched: "mismatched"
        case .registeredSince: "registeredSince"
        }
    }

    fileprivate var detail: String {
        switch self {
        case .failed(let reason), .dropped(let reason), .rejected(let reason), .mismatched(let reason): reason
        default: ""
        }
    }
}
