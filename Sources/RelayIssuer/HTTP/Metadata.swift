// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The issuer's metadata (RFC 8414, OpenID Connect Discovery).
struct Metadata: Encodable {
    var issuer: String
    var authorizationEndpoint: String
    var tokenEndpoint: String
    var deviceAuthorizationEndpoint: String
    var introspectionEndpoint: String
    var registrationEndpoint: String
    var revocationEndpoint: String
    var jwksURI: String
    var grantTypesSupported = ["authorization_code", TokenRequest.deviceCode, TokenRequest.preAuthorizedCode, "refresh_token"]
    var responseTypesSupported = ["code"]
    var responseModesSupported = ["query"]
    var codeChallengeMethodsSupported = ["S256"]
    /// RFC 9207.
    var authorizationResponseISSParameterSupported = true
    var scopesSupported = Scopes.all.names
    var subjectTypesSupported = ["public"]
    var tokenEndpointAuthMethodsSupported = ["none"]
    var revocationEndpointAuthMethodsSupported = ["none"]
    var introspectionEndpointAuthMethodsSupported = ["client_secret_basic"]
    var idTokenSigningAlgValuesSupported = ["ES256"]
    var dpopSigningAlgValuesSupported = ["ES256"]
    var preAuthorizedGrantAnonymousAccessSupported = false

    init(issuer: String) {
        self.issuer = issuer
        self.authorizationEndpoint = issuer + "/authorize"
        self.registrationEndpoint = issuer + "/register"
        self.deviceAuthorizationEndpoint = issuer + "/device_authorization"
        self.introspectionEndpoint = issuer + "/introspect"
        self.tokenEndpoint = issuer + "/token"
        self.revocationEndpoint = issuer + "/revoke"
        self.jwksURI = issuer + "/jwks"
    }

    private enum CodingKeys: String, CodingKey {
        case issuer
        case authorizationEndpoint = "authorization_endpoint"
        case registrationEndpoint = "registration_endpoint"
        case responseModesSupported = "response_modes_supported"
        case codeChallengeMethodsSupported = "code_challenge_methods_supported"
        case authorizationResponseISSParameterSupported = "authorization_response_iss_parameter_supported"
        case deviceAuthorizationEndpoint = "device_authorization_endpoint"
        case introspectionEndpoint = "introspection_endpoint"
        case introspectionEndpointAuthMethodsSupported = "introspection_endpoint_auth_methods_supported"
        case tokenEndpoint = "token_endpoint"
        case revocationEndpoint = "revocation_endpoint"
        case jwksURI = "jwks_uri"
        case grantTypesSupported = "grant_types_supported"
        case responseTypesSupported = "response_types_supported"
        case scopesSupported = "scopes_supported"
        case subjectTypesSupported = "subject_types_supported"
        case tokenEndpointAuthMethodsSupported = "token_endpoint_auth_methods_supported"
        case revocationEndpointAuthMethodsSupported = "revocation_endpoint_auth_methods_supported"
        case idTokenSigningAlgValuesSupported = "id_token_signing_alg_values_supported"
        case dpopSigningAlgValuesSupported = "dpop_signing_alg_values_supported"
        case preAuthorizedGrantAnonymousAccessSupported = "pre-authorized_grant_anonymous_access_supported"
    }
}
