// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The name, kind and help text of a metric.
package struct MetricDescription: Hashable, Sendable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    package var name: String
    package var kind: Kind
    package var help: String

    package init(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        self.kind = kind
        self.help = help
    }
}

extension MetricDescription {
    /// All metrics of the relay. `docs/relay.md` lists the same.
    package static let all: [MetricDescription] = process + relay + http + control + tunnels + store + nodes + issuers + pushes

    private static let process = [
        MetricDescription("process_cpu_seconds_total", .counter, "CPU time of the process, user and system."),
        MetricDescription("process_resident_memory_bytes", .gauge, "Memory of the process that is in RAM."),
        MetricDescription("process_virtual_memory_bytes", .gauge, "Address space of the process."),
        MetricDescription("process_open_fds", .gauge, "File descriptors that are open."),
        MetricDescription("process_max_fds", .gauge, "File descriptors that the process may open."),
        MetricDescription("process_start_time_seconds", .gauge, "When the process started, in seconds since 1970."),
    ]

    private static let relay = [
        MetricDescription("relay_build_info", .gauge, "Constant 1, with the version, commit and protocol as labels."),
        MetricDescription("relay_accounts", .gauge, "Accounts."),
        MetricDescription("relay_endpoints", .gauge, "Endpoints of all accounts, connected or not."),
        MetricDescription("relay_certificate_expiry_timestamp_seconds", .gauge, "When the certificate of certificateFile expires."),
    ]

    private static let http = [
        MetricDescription("relay_connections", .gauge, "Open connections at the addresses of listen and tunnelListen."),
        MetricDescription("relay_connections_unauthenticated", .gauge, "Open connections that are not authenticated."),
        MetricDescription("relay_connections_rejected_total", .counter, "Connections closed because their address has too many."),
        MetricDescription("relay_http_requests_total", .counter, "HTTP requests answered, by status, without WebSocket upgrades."),
        MetricDescription("relay_http_request_seconds", .histogram, "Time from the head of an HTTP request to its whole response."),
        MetricDescription("relay_upgrades_rejected_total", .counter, "Rejected WebSocket upgrades, by HTTP status."),
    ]

    private static let control = [
        MetricDescription("relay_control_channels", .gauge, "Control channels that have received welcome."),
        MetricDescription("relay_control_messages_received_total", .counter, "Messages received on control channels."),
        MetricDescription("relay_control_messages_sent_total", .counter, "Messages sent on control channels."),
        MetricDescription("relay_control_closed_total", .counter, "Control channels that the relay closed, by close code."),
        MetricDescription("relay_control_read_pauses_total", .counter, "Pauses of reading a channel with too many waiting requests."),
        MetricDescription("relay_hello_seconds", .histogram, "Time from a hello to its welcome."),
        MetricDescription("relay_hellos_rejected_total", .counter, "Rejected hellos, by code, without the first one of a join."),
    ]

    private static let tunnels = [
        MetricDescription("relay_tunnels", .gauge, "Open tunnels."),
        MetricDescription("relay_tunnel_connections", .gauge, "Connections in tunnels."),
        MetricDescription("relay_tunnels_opened_total", .counter, "Tunnels opened."),
        MetricDescription("relay_tunnels_paired_total", .counter, "Pairings of tunnels."),
        MetricDescription("relay_tunnels_failed_total", .counter, "Tunnels that failed, by reason."),
        MetricDescription("relay_tunnel_joins_rejected_total", .counter, "Connections that no tunnel admitted."),
        MetricDescription("relay_tunnel_bytes_total", .counter, "Bytes of tunnels, by transport and direction."),
    ]

    private static let store = [
        MetricDescription("relay_store_writable", .gauge, "Whether a write reaches the disk: 1 or 0."),
        MetricDescription("relay_store_database_bytes", .gauge, "Size of the database."),
        MetricDescription("relay_store_commit_seconds", .histogram, "Time of a commit of the store."),
        MetricDescription("relay_store_transactions_total", .counter, "Transactions in the commits, of which several can share one."),
        MetricDescription("relay_store_commit_failures_total", .counter, "Commits that failed."),
        MetricDescription("relay_waiting_commands", .gauge, "Commands that wait for their endpoints."),
        MetricDescription("relay_waiting_command_bytes", .gauge, "Bytes of the commands that wait for their endpoints."),
    ]

    private static let nodes = [
        MetricDescription("relay_node_accounts", .gauge, "Accounts that this node serves."),
        MetricDescription("relay_node_leases_taken_total", .counter, "Accounts that this node has taken."),
        MetricDescription("relay_node_leases_lost_total", .counter, "Accounts that this node has lost or given back."),
        MetricDescription("relay_node_suspended", .gauge, "Whether this node admits nobody, because it cannot reach its database: 1 or 0."),
    ]

    private static let issuers = [
        MetricDescription("relay_sign_ins_total", .counter, "Sign-ins at the relay's own issuer, by method."),
        MetricDescription("relay_sign_in_failures_total", .counter, "Failed sign-ins at the relay's own issuer, by method and reason."),
        MetricDescription("relay_tokens_refused_total", .counter, "Refused access tokens, by error."),
        MetricDescription("relay_issuer_request_seconds", .histogram, "Time of a request to an issuer, by issuer."),
        MetricDescription("relay_issuer_failures_total", .counter, "Failed requests to an issuer, by issuer and reason."),
    ]

    private static let pushes = [
        MetricDescription("relay_push_attempts_total", .counter, "Pushes sent, by service and outcome."),
        MetricDescription("relay_push_wakes_not_sent_total", .counter, "Wakes that no push service accepted, by reason."),
    ]
}
