// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// A message from an endpoint to its relay. Indirect, as `RelayMessage` is.
package indirect enum EndpointMessage: Hashable, Sendable {
    case hello(Hello)
    case publish(Publish)
    case unpublish(Unpublish)
    case endpointUpdate(EndpointUpdate)
    case endpointApprove(EndpointApprove)
    case endpointRevoke(EndpointRevoke)
    case leaving(Leaving)
    case notificationsRegister(NotificationsRegister)
    case watch(Watch)
    case unwatch(Unwatch)
    case commandSend(CommandSend)
    case commandCancel(CommandCancel)
    case commandReceived(CommandReceived)
    case commandResult(CommandResult)
    case commandAcknowledge(CommandAcknowledge)
    case mailboxDrain(MailboxDrain)
    case tunnelOpen(TunnelOpen)
    case tunnelDecline(TunnelDecline)
    case tunnelCandidates(TunnelCandidates)
    case authRefresh(AuthRefresh)
    case identityLink(IdentityLink)

    /// The message in the case.
    package var content: any ControlMessage {
        switch self {
        case .hello(let message): message
        case .publish(let message): message
        case .unpublish(let message): message
        case .endpointUpdate(let message): message
        case .endpointApprove(let message): message
        case .endpointRevoke(let message): message
        case .leaving(let message): message
        case .notificationsRegister(let message): message
        case .watch(let message): message
        case .unwatch(let message): message
        case .commandSend(let message): message
        case .commandCancel(let message): message
        case .commandReceived(let message): message
        case .commandResult(let message): message
        case .commandAcknowledge(let message): message
        case .mailboxDrain(let message): message
        case .tunnelOpen(let message): message
        case .tunnelDecline(let message): message
        case .tunnelCandidates(let message): message
        case .authRefresh(let message): message
        case .identityLink(let message): message
        }
    }

    /// The request's number; `nil` if neither `ok` nor `error` answers the message.
    package var ref: RequestRef? { (content as? any NumberedControlMessage)?.ref }

    /// `nil` for an unknown type.
    private init?(type: String, json: JSONValue) throws(JSONError) {
        switch type {
        case Hello.type: self = .hello(try Hello(json: json))
        case Publish.type: self = .publish(try Publish(json: json))
        case Unpublish.type: self = .unpublish(try Unpublish(json: json))
        case EndpointUpdate.type: self = .endpointUpdate(try EndpointUpdate(json: json))
        case EndpointApprove.type: self = .endpointApprove(try EndpointApprove(json: json))
        case EndpointRevoke.type: self = .endpointRevoke(try EndpointRevoke(json: json))
        case Leaving.type: self = .leaving(try Leaving(json: json))
        case NotificationsRegister.type: self = .notificationsRegister(try NotificationsRegister(json: json))
        case Watch.type: self = .watch(try Watch(json: json))
        case Unwatch.type: self = .unwatch(try Unwatch(json: json))
        case CommandSend.type: self = .commandSend(try CommandSend(json: json))
        case CommandCancel.type: self = .commandCancel(try CommandCancel(json: json))
        case CommandReceived.type: self = .commandReceived(try CommandReceived(json: json))
        case CommandResult.type: self = .commandResult(try CommandResult(json: json))
        case CommandAcknowledge.type: self = .commandAcknowledge(try CommandAcknowledge(json: json))
        case MailboxDrain.type: self = .mailboxDrain(try MailboxDrain(json: json))
        case TunnelOpen.type: self = .tunnelOpen(try TunnelOpen(json: json))
        case TunnelDecline.type: self = .tunnelDecline(try TunnelDecline(json: json))
        case TunnelCandidates.type: self = .tunnelCandidates(try TunnelCandidates(json: json))
        case AuthRefresh.type: self = .authRefresh(try AuthRefresh(json: json))
        case IdentityLink.type: self = .identityLink(try IdentityLink(json: json))
        default: return nil
        }
    }
}

extension EndpointMessage {
    /// The result of decoding a frame from an endpoint.
    package enum Received: Hashable, Sendable {
        /// A message.
        case message(EndpointMessage)
        /// A request of an unknown type, malformed, or over a limit. The value is the answer.
        case refused(RelayMessage.Failure)
        /// A message of an unknown type that is not a request.
        case ignored
    }

    /// Reads a frame.
    /// - Parameter isWelcome: whether the relay has sent `welcome`; before that the frame limit is lower.
    /// - Throws: only errors that end the channel.
    package static func decode(
        from frame: ByteBuffer,
        limits: Limits,
        isWelcome: Bool = true
    ) throws(ControlFrameError) -> Received {
        let json = try ControlFrame.json(of: frame, limits: limits, isWelcome: isWelcome)
        do throws(JSONError) {
            return try received(type: try json.member("type"), json: json)
        } catch {
            throw ControlFrameError(error)
        }
    }

    /// The relay does not answer these messages, whatever fields they have.
    private static let unanswered: Set<String> = [
        Hello.type, CommandReceived.type, CommandAcknowledge.type, TunnelDecline.type, TunnelCandidates.type,
    ]

    private static func received(type: String, json: JSONValue) throws(JSONError) -> Received {
        do throws(JSONError) {
            if let message = try EndpointMessage(type: type, json: json) { return .message(message) }
            guard let ref = ref(of: json) else { return .ignored }
            let message = "this relay does not know this type of request"
            return .refused(RelayMessage.Failure(ref: ref, code: .unknownType, message: message))
        } catch {
            guard let ref = ref(of: json), !unanswered.contains(type) else { throw error }
            var failure =
                switch error {
                case .tooLarge(let exceeded): RelayMessage.Failure(ref: ref, exceeding: exceeded)
                case .malformed(let reason): RelayMessage.Failure(ref: ref, code: .malformed, message: reason)
                }
            failure.mayHaveRun = type == CommandSend.type && (try? json.optional("again")) ?? false
            return .refused(failure)
        }
    }

    /// Whether an error that is sent before the relay has looked for the command must say `mayHaveRun`: these bytes may have been sent before.
    package var mayHaveRun: Bool { if case .commandSend(let send) = self { send.again } else { false } }

    /// The reference, if there is one. Each message type checks for itself whether it needs one.
    private static func ref(of json: JSONValue) -> RequestRef? { try? json.optional("ref") }

    /// The message as a frame.
    package func encode(limits: Limits = Limits()) throws(ControlFrameError) -> ByteBuffer { try content.frame(limits: limits) }
}
