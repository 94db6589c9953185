// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Publishes an app, and prints each launch request until SIGINT or SIGTERM.
package struct Host: Sendable {
    package enum Answer: String, Sendable, CaseIterable, Encodable {
        case launched, declined, unsupported
    }

    var schemes: [String]
    var appID: String
    var name: String
    var answer: Answer

    package init(schemes: [String], appID: String, name: String, answer: Answer) {
        self.schemes = schemes.map { $0.lowercased() }
        self.appID = appID
        self.name = name
        self.answer = answer
    }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            case hosting, launch
        }

        package struct Caller: Encodable, Sendable {
            package var device: String
            package var name: String
            package var endpoint: String
            package var new: Bool
            /// Whether it is another person's device, which was paired with this one.
            package var paired: Bool

            init(_ caller: AppServiceCaller) {
                device = "\(caller.systemID)"
                name = DisplayText.sanitized(caller.deviceName)
                endpoint = "\(caller.endpoint)"
                new = caller.isNew
                paired = caller.isPaired
            }
        }

        package var event: Kind
        package var app: String
        package var schemes: [String]?
        package var uri: String?
        package var fallback: String?
        package var preferred: [String]?
        package var from: Caller?
        package var answer: Answer?

        package func lines(_ style: Style) -> [String] {
            guard let uri, let from, let answer else { return [] }
            return ["\(uri)  from \(style.show(from.name, .strong))\(from.new ? " (new)" : ""): \(answer.rawValue)"]
        }
    }

    /// Runs until SIGINT or SIGTERM.
    package func run(_ context: AgentContext) async throws {
        if let scheme = schemes.first(where: { !LaunchURI.isScheme($0) }) {
            throw AgentError("schemeInvalid", "\(scheme) is not a URI scheme; give it without a colon, such as https", .usage)
        }
        let output = HostOutput(console: context.console)
        let app = registration { try output.print($0) }
        try await context.host(app, output: output, isTransient: true) { _ in
            try context.console.print(Event(event: .hosting, app: appID, schemes: schemes))
            if !context.console.isJSON {
                context.console.note("hosting \(appID) for \(schemes.joined(separator: ", ")); it ends with Ctrl-C")
            }
        }
    }

    private func registration(_ tell: @escaping @Sendable (Event) throws -> Void) -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: appID,
            displayName: name,
            launchHandler: LaunchHandler(schemes: schemes) { request in
                try tell(
                    Event(
                        event: .launch,
                        app: appID,
                        uri: request.uri.text,
                        fallback: request.fallbackURI?.text,
                        preferred: request.preferredAppIDs.map(DisplayText.sanitized),
                        from: Event.Caller(request.caller),
                        answer: answer
                    )
                )
                switch answer {
                case .launched: return .launched
                case .declined: return .declined
                case .unsupported: return .unsupported
                }
            },
            services: [PingService.service]
        )
    }
}
