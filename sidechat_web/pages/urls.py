"""Routes of the pages."""

from django.urls import path, register_converter

from . import account, actions, importing, mcp_servers, merging, options, retrying, session, settings, sharing, tree


class SessionIdConverter:
    regex = "[a-z0-9]{26}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class PlaceConverter(SessionIdConverter):
    regex = "main|side"


class FormatConverter(SessionIdConverter):
    regex = "dsh|markdown|openai"


register_converter(SessionIdConverter, "id")
register_converter(PlaceConverter, "place")
register_converter(FormatConverter, "format")

urlpatterns = [
    path("", session.home, name="home"),
    path("new/", actions.new, name="new"),
    path("import/", importing.import_files, name="import"),
    path("sessions/", tree.sessions, name="sessions"),
    path("s/<id:session_id>/", session.session, name="session"),
    path("s/<id:session_id>/state/<place:place>", session.state, name="state"),
    path("s/<id:session_id>/older", session.older, name="older"),
    path("s/<id:session_id>/inherited", session.inherited, name="inherited"),
    path("s/<id:session_id>/text/<int:seq>", session.message_text, name="message-text"),
    path("s/<id:session_id>/send", actions.send, name="send"),
    path("s/<id:session_id>/stop", actions.stop, name="stop"),
    path("s/<id:session_id>/continue", actions.continue_, name="continue"),
    path("s/<id:session_id>/side", actions.open_side, name="open-side"),
    path("s/<id:session_id>/renew", actions.renew, name="renew"),
    path("s/<id:session_id>/fork", actions.fork, name="fork"),
    path("s/<id:session_id>/retry/<int:seq>", retrying.retry, name="retry"),
    path("s/<id:session_id>/queue/<id:item_id>", actions.edit_queued, name="edit-queued"),
    path("s/<id:session_id>/queue/<id:item_id>/remove", actions.remove_queued, name="remove-queued"),
    path("s/<id:session_id>/approvals/<id:approval_id>", actions.decide, name="decide"),
    path("s/<id:session_id>/merge", merging.merge, name="merge"),
    path("s/<id:session_id>/merge-sides", merging.merge_sides, name="merge-sides"),
    path("s/<id:session_id>/review", merging.review, name="review"),
    path("s/<id:session_id>/merges/<id:merge_id>/cancel", merging.cancel_merge, name="cancel-merge"),
    path("s/<id:session_id>/retract", merging.retract, name="retract"),
    path("s/<id:session_id>/promote", merging.promote, name="promote"),
    path("s/<id:session_id>/settings", options.settings, name="settings"),
    path("s/<id:session_id>/export/<format:format>", options.export, name="export"),
    path("s/<id:session_id>/delete", options.delete, name="delete"),
    path("s/<id:session_id>/share", sharing.share, name="share"),
    path("account/", account.account, name="account"),
    path("account/password", account.password, name="account-password"),
    path("account/tokens", account.make_token, name="account-tokens"),
    path("account/tokens/revoke", account.revoke_token, name="account-revoke-token"),
    path("account/sign-ins/end", account.end_sign_in, name="account-end-sign-in"),
    path("account/invitations", account.invite, name="account-invitations"),
    path("account/invitations/withdraw", account.withdraw_invitation, name="account-withdraw-invitation"),
    path("settings/", settings.preferences, name="preferences"),
    path("settings/providers/new", settings.add_provider, name="add-provider"),
    path("settings/providers/<slug:name>", settings.edit_provider, name="edit-provider"),
    path("settings/providers/<slug:name>/models", settings.provider_models, name="provider-models"),
    path("settings/providers/<slug:name>/test", settings.test_provider, name="test-provider"),
    path("settings/providers/<slug:name>/remove", settings.remove_provider, name="remove-provider"),
    path("settings/mcp/server", mcp_servers.server, name="mcp-server"),
    path("settings/mcp/trust", mcp_servers.trust, name="trust-mcp-server"),
    path("settings/mcp/test", mcp_servers.test, name="test-mcp-server"),
    path("settings/mcp/remove", mcp_servers.remove, name="remove-mcp-server"),
]
